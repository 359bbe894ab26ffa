package setup

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"quarry.storage/quarry/controller/internal/reconcile/driver"
	"quarry.storage/quarry/controller/internal/reconcile/harborcluster/witness"
)

// Config of the controller.
type Config struct {
	// Namespace that the controllers run in.
	Namespace string
	// AgentNamespace that the agents run in.
	AgentNamespace string
	// AgentServiceAccount is the name of the agents' service account there.
	AgentServiceAccount string
	// AgentPort is the port that agents listen on.
	AgentPort int
	// MetricsAddress and HealthAddress to listen on; "0" turns metrics off.
	MetricsAddress, HealthAddress string
	// LeaderElection lets only one of several controllers work.
	LeaderElection bool
	// Image of the controller, which CSI drivers run too; that of the pod PodName when empty.
	Image, PodName string
	// SidecarRegistry holds the CSI sidecars; SidecarImages replaces single ones.
	SidecarRegistry, SidecarImages string
	// Controllers that run, of those that can be switched off: names, "*" for all that are not named, "-NAME" for one that does not. Empty is "*".
	// Those of onlyNamed run where they are named.
	Controllers []string
	// Verbosity of the log: 0, 1 or 4.
	Verbosity int
	// again lets a process run a second controller after the first, as tests do.
	again bool
	// settled takes every kind for known to Kubernetes' garbage collector, however new its definition is: where tests run there is none.
	settled bool
}

// optional are the controllers that can be switched off. Those of storages have the names of their kinds, in lower case.
var optional = []string{controllerCluster, controllerGluster, controllerHarbor, controllerIscsi, controllerNfs, controllerPin, controllerStateful}

// Names of the controllers that can be switched off.
const (
	controllerCluster  = "cluster"
	controllerGluster  = "glustercluster"
	controllerHarbor   = "harborcluster"
	controllerIscsi    = "iscsi"
	controllerNfs      = "nfs"
	controllerPin      = "pin"
	controllerStateful = "statefulcluster"
)

// onlyNamed are the controllers that "*" does not mean: what they make was never tried with real servers (docs/gluster.md).
var onlyNamed = []string{controllerGluster}

// runs reports whether a controller runs. The first entry that names it decides.
func (c Config) runs(name string) bool {
	star := len(c.Controllers) == 0
	for _, entry := range c.Controllers {
		switch entry {
		case name:
			return true
		case "-" + name:
			return false
		case "*":
			star = true
		}
	}
	return star && !slices.Contains(onlyNamed, name)
}

// runsKind reports whether the storages of a kind are looked after. What they use is known and respected either way.
func (c Config) runsKind(kind string) bool { return c.runs(strings.ToLower(kind)) }

// settle is how long after its definition was made a kind is known to Kubernetes' garbage collector.
func (c Config) settle() time.Duration {
	if c.settled {
		return 0
	}
	return witness.Settled
}

// off returns the names of the controllers that do not run.
func (c Config) off() []string { return slices.DeleteFunc(slices.Clone(optional), c.runs) }

// defaultAgentNamespace is that of deploy/base.
const defaultAgentNamespace = "quarry-agents"

// agentsIn returns the namespaces in which agents are looked for: those of before they had one of their own ran beside the controller. Where
// a pod runs is only where to ask; that it is the agent of its node is proved by its certificate. Their own namespace is enough once
// test/upgrade/base names a commit after decision 0037.
func agentsIn(own, agents string) []string {
	return slices.Compact([]string{agents, own})
}

// cachedIn keeps what is in these namespaces.
func cachedIn(namespaces []string) map[string]cache.Config {
	out := map[string]cache.Config{}
	for _, n := range namespaces {
		out[n] = cache.Config{}
	}
	return out
}

// defaultImage is the controller's own image where no pod tells.
const defaultImage = "quarry.storage/controller:dev"

// Parse reads a Config from command line arguments.
func Parse(args []string) (Config, error) {
	c := Config{}
	f := flag.NewFlagSet("manager", flag.ContinueOnError)
	f.StringVar(&c.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the controllers (default $POD_NAMESPACE)")
	f.StringVar(&c.AgentNamespace, "agent-namespace", defaultAgentNamespace, "namespace of the agents")
	f.StringVar(&c.AgentServiceAccount, "agent-service-account", "quarry-agent", "service account of the agents")
	f.IntVar(&c.AgentPort, "agent-port", 7443, "port that agents listen on")
	f.StringVar(&c.MetricsAddress, "metrics-address", ":8080", "address of the metrics; 0 turns them off")
	f.StringVar(&c.HealthAddress, "health-address", ":8081", "address of the health checks")
	f.BoolVar(&c.LeaderElection, "leader-election", true, "let only one of several controllers work")
	f.IntVar(&c.Verbosity, "v", 0, "verbosity of the log: 0, 1 for changes, 4 for details")
	f.StringVar(&c.Image, "image", "", "image of the controller, for the CSI drivers (default: that of the pod)")
	f.StringVar(&c.PodName, "pod-name", os.Getenv("POD_NAME"), "name of the pod that this runs in (default $POD_NAME)")
	f.StringVar(&c.SidecarRegistry, "sidecar-registry", driver.DefaultRegistry, "registry that holds the CSI sidecars")
	f.StringVar(&c.SidecarImages, "sidecar-images", "", "images of single CSI sidecars: name=image, separated by commas")
	controllers := f.String("controllers", "*", "controllers to run, separated by commas: *, NAME or -NAME of "+strings.Join(optional, ", ")+"; * does not mean "+strings.Join(onlyNamed, ", "))
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.Controllers = strings.Split(*controllers, ",")
	if f.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return c, c.Validate()
}

// Validate says what is wrong with the Config.
func (c Config) Validate() error {
	var errs []error
	if c.Namespace == "" {
		errs = append(errs, errors.New("namespace is empty: set --namespace or POD_NAMESPACE"))
	}
	if c.AgentNamespace == "" {
		errs = append(errs, errors.New("agent-namespace is empty"))
	}
	if c.AgentServiceAccount == "" {
		errs = append(errs, errors.New("agent-service-account is empty"))
	}
	if c.AgentPort < 1 || c.AgentPort > 65535 {
		errs = append(errs, fmt.Errorf("agent-port %d is not a port", c.AgentPort))
	}
	for _, entry := range c.Controllers {
		if entry != "*" && !slices.Contains(optional, strings.TrimPrefix(entry, "-")) {
			errs = append(errs, fmt.Errorf("controllers: %q is not *, and none of %s", entry, strings.Join(optional, ", ")))
		}
	}
	// The image of the pod is found later; until then any name serves.
	_, err := driver.NewImages(cmp.Or(c.Image, defaultImage), c.SidecarRegistry, c.SidecarImages)
	return errors.Join(append(errs, err)...)
}
