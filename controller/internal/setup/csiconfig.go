package setup

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// CSIConfig of the CSI controller service.
type CSIConfig struct {
	// Driver to serve.
	Driver string
	// Address is the socket that the sidecars connect to.
	Address string
	// Namespace of the Secret with the client certificate.
	Namespace string
	// PodName is the pod that this runs in; empty outside of a cluster.
	PodName string
	// AgentNamespace that the agents run in.
	AgentNamespace string
	// AgentPort is the port that agents listen on.
	AgentPort int
	// MetricsAddress and HealthAddress to listen on; "0" turns them off.
	MetricsAddress, HealthAddress string
	// Verbosity of the log: 0, 1 or 4.
	Verbosity int
}

// ParseCSI reads a CSIConfig from command line arguments.
func ParseCSI(args []string) (CSIConfig, error) {
	c := CSIConfig{}
	f := flag.NewFlagSet("csi", flag.ContinueOnError)
	f.StringVar(&c.Driver, "driver", v1alpha1.DriverLVM, "CSI driver to serve")
	f.StringVar(&c.Address, "csi-address", "/csi/csi.sock", "socket that the sidecars connect to; may begin with unix://")
	f.StringVar(&c.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the client certificate (default $POD_NAMESPACE)")
	f.StringVar(&c.PodName, "pod-name", os.Getenv("POD_NAME"), "name of the pod that this runs in (default $POD_NAME)")
	f.StringVar(&c.AgentNamespace, "agent-namespace", defaultAgentNamespace, "namespace of the agents")
	f.IntVar(&c.AgentPort, "agent-port", 7443, "port that agents listen on")
	f.StringVar(&c.MetricsAddress, "metrics-address", ":8080", "address of the metrics; 0 turns them off")
	f.StringVar(&c.HealthAddress, "health-address", ":8081", "address of the health checks; 0 turns them off")
	f.IntVar(&c.Verbosity, "v", 0, "verbosity of the log: 0, 1 for changes, 4 for details")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.Address = strings.TrimPrefix(c.Address, "unix://")
	return c, c.Validate()
}

// Validate says what is wrong with the CSIConfig.
func (c CSIConfig) Validate() error {
	var errs []error
	if _, known := servable[c.Driver]; !known {
		errs = append(errs, fmt.Errorf("driver %q is not known: want %s", c.Driver, strings.Join(driverNames(), " or ")))
	}
	if !filepath.IsAbs(c.Address) {
		errs = append(errs, fmt.Errorf("csi-address %q is not an absolute path", c.Address))
	}
	if c.Namespace == "" {
		errs = append(errs, errors.New("namespace is empty: set --namespace or POD_NAMESPACE"))
	}
	if c.AgentNamespace == "" {
		errs = append(errs, errors.New("agent-namespace is empty"))
	}
	if c.AgentPort < 1 || c.AgentPort > 65535 {
		errs = append(errs, fmt.Errorf("agent-port %d is not a port", c.AgentPort))
	}
	return errors.Join(errs...)
}
