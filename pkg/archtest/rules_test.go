package archtest

import "strings"

const module = "quarry.storage/quarry/"

// rule says which packages must not be reached from some packages of ours.
type rule struct {
	// name says what the rule keeps apart.
	name string
	// of are prefixes of the packages that the rule binds, relative to the module. An element "<backend>" here and in the other lists
	// stands for each backend that the tree has, see backends.
	of []string
	// except are prefixes, relative to the module, that the rule does not bind.
	except []string
	// deny are prefixes of import paths that must not be reached through any number of imports; "~/" stands for our module, and "<backend>" here for Gluster
	// as well, which has rooms and is no backend of storages.
	deny []string
	// denyDirect are import paths of the standard library that must not be imported directly: fmt itself needs os.
	denyDirect []string
	// allow are prefixes that the deny list would otherwise catch.
	allow []string
}

const (
	grpcModule       = "google.golang.org/grpc"
	protobufModule   = "google.golang.org/protobuf"
	runtimeModule    = "sigs.k8s.io/controller-runtime"
	clientGoModule   = "k8s.io/client-go"
	diskfsModule     = "github.com/diskfs/go-diskfs"
	urootModule      = "github.com/u-root/u-root"
	blockdevModule   = "github.com/siderolabs/go-blockdevice"
	mountinfoModule  = "github.com/moby/sys/mountinfo"
	kubernetesPrefix = "k8s.io/"
)

var rules = []rule{
	{
		name: "the API is types only",
		of:   []string{"pkg/api"},
		deny: []string{"~/agent", "~/controller", "~/proto", grpcModule, runtimeModule, clientGoModule},
	},
	{
		name: "the state machine is pure",
		of:   []string{"pkg/nodestate"},
		deny: []string{"~/", grpcModule, runtimeModule, clientGoModule}, allow: []string{"~/pkg/nodestate", "~/pkg/api"},
		denyDirect: []string{"os", "os/exec", "net", "net/http"},
	},
	{
		name: "the contract imports nothing of ours",
		of:   []string{"proto"},
		deny: []string{"~/agent", "~/controller", "~/pkg", runtimeModule, kubernetesPrefix},
	},
	{
		name:       "the agent's plans are pure",
		of:         []string{"agent/internal/plan", "agent/internal/plan/volume"},
		deny:       []string{"~/agent", "~/proto", "~/controller", grpcModule, runtimeModule, clientGoModule},
		allow:      []string{"~/agent/internal/plan"},
		denyDirect: []string{"os", "os/exec", "net", "net/http", "syscall", "golang.org/x/sys/unix"},
	},
	{
		name:       "what the doctor says of a node is pure",
		of:         []string{"agent/internal/doctor"},
		except:     []string{"agent/internal/doctor/observe"},
		deny:       []string{"~/", grpcModule, runtimeModule, clientGoModule},
		allow:      []string{"~/agent/internal/doctor"},
		denyDirect: []string{"os", "os/exec", "net", "net/http", "syscall", "golang.org/x/sys/unix"},
	},
	{
		name:       "the doctor looks and changes nothing",
		of:         []string{"agent/internal/doctor/observe"},
		deny:       []string{"~/agent", "~/proto", grpcModule, runtimeModule, clientGoModule},
		allow:      []string{"~/agent/internal/doctor", "~/agent/internal/host/iscsi", "~/agent/internal/host/module", "~/agent/internal/host/run"},
		denyDirect: []string{"os/exec"},
	},
	{
		name:       "the controller's decisions are pure",
		of:         []string{"controller/internal/decide"},
		deny:       []string{"~/controller", "~/agent", "~/proto", grpcModule, runtimeModule, clientGoModule},
		allow:      []string{"~/controller/internal/decide"},
		denyDirect: []string{"os", "os/exec", "net", "net/http"},
	},
	{
		name:       "observing and applying do not know the wire",
		of:         []string{"agent/internal/inventory", "agent/internal/apply", "agent/internal/lun"},
		deny:       []string{"~/agent/internal/server", "~/proto", grpcModule},
		denyDirect: []string{"os/exec"},
	},
	{
		name:   "running steps knows no tool: adapters do",
		of:     []string{"agent/internal/apply"},
		except: []string{"agent/internal/apply/disk", "agent/internal/apply/ceph", "agent/internal/apply/<backend>"},
		deny:   []string{"~/agent/internal/host", "~/agent/internal/inventory"},
	},
	{
		name:       "host tools know only the exec seam and their own library",
		of:         []string{"agent/internal/host"},
		except:     []string{"agent/internal/host/run"},
		deny:       []string{"~/agent", "~/controller", "~/proto", grpcModule, runtimeModule, clientGoModule},
		allow:      []string{"~/agent/internal/host/run", "~/agent/internal/host/"},
		denyDirect: []string{"os/exec"},
	},
	{
		name:       "decisions on the groups of shared LUNs are pure",
		of:         []string{"agent/internal/sharedgroup/decide"},
		deny:       []string{"~/agent", "~/proto", "~/controller", grpcModule, runtimeModule, clientGoModule},
		allow:      []string{"~/agent/internal/sharedgroup/decide"},
		denyDirect: []string{"os", "os/exec", "net", "net/http", "syscall", "golang.org/x/sys/unix"},
	},
	{
		name:   "work on the groups of shared LUNs knows neither the wire nor the tools: adapters do",
		of:     []string{"agent/internal/sharedgroup"},
		except: []string{"agent/internal/sharedgroup/tools", "agent/internal/sharedgroup/epoch"},
		deny: []string{
			"~/agent", "~/proto", "~/controller", grpcModule, protobufModule, runtimeModule, clientGoModule, kubernetesPrefix,
		},
		allow:      []string{"~/agent/internal/sharedgroup", "~/agent/internal/keylock"},
		denyDirect: []string{"os", "os/exec", "net", "net/http", "golang.org/x/sys/unix"},
	},
	{
		name:  "the tools of shared groups know no local disks' groups, no wire and no drivers",
		of:    []string{"agent/internal/sharedgroup/tools", "agent/internal/sharedgroup/epoch"},
		deny:  []string{"~/agent", "~/proto", grpcModule, protobufModule},
		allow: []string{"~/agent/internal/sharedgroup", "~/agent/internal/host", "~/agent/internal/plan"},
	},
	{
		name: "the device of a volume with a known table knows no LVM",
		of:   []string{"agent/internal/host/dm"},
		deny: []string{"~/agent/internal/host/lvm", "~/pkg/sharedlun"},
	},
	{
		name:       "iSCSI sessions and reservations know the exec seam and the words of both sides alone",
		of:         []string{"agent/internal/host/iscsi", "agent/internal/host/reservation"},
		deny:       []string{"~/"},
		allow:      []string{"~/agent/internal/host/iscsi", "~/agent/internal/host/reservation", "~/agent/internal/host/run", "~/pkg/sharedlun", "~/pkg/quarry", "~/pkg/volumeid"},
		denyDirect: []string{"os/exec"},
	},
	{
		name: "the agent's engine knows neither the wire nor the tools",
		of:   []string{"agent/internal/node", "agent/internal/quiet"},
		deny: []string{
			"~/agent", "~/proto", "~/controller", grpcModule, protobufModule, runtimeModule, clientGoModule, kubernetesPrefix,
		},
		allow:      []string{"~/agent/internal/node", "~/agent/internal/quiet", "~/agent/internal/plan"},
		denyDirect: []string{"os", "os/exec", "net", "net/http", "golang.org/x/sys/unix"},
	},
	{
		name: "the agent's server is wire only: it knows the engine, and neither tools nor Kubernetes clients",
		of:   []string{"agent/internal/server"},
		deny: []string{
			"~/agent", "~/controller", runtimeModule, clientGoModule, kubernetesPrefix, diskfsModule, urootModule, blockdevModule, mountinfoModule,
		},
		allow:      []string{"~/agent/internal/server", "~/agent/internal/node", "~/agent/internal/plan"},
		denyDirect: []string{"os", "os/exec", "net/http", "golang.org/x/sys/unix"},
	},
	{
		name:       "the frame of the agent's CSI services knows no storage",
		of:         []string{"agent/internal/csi"},
		except:     []string{"agent/internal/csi/<backend>", "agent/internal/csi/csitest", "agent/internal/csi/sanitytest"},
		deny:       []string{"~/agent", "~/proto", "~/pkg/volumeid", "~/pkg/sharedlun", "~/pkg/sharedvolume", "~/pkg/cephvolume"},
		allow:      []string{"~/agent/internal/csi", "~/agent/internal/host/fs", "~/agent/internal/host/mount", "~/agent/internal/host/run"},
		denyDirect: []string{"os/exec"},
	},
	{
		name: "sources of volumes on nodes do not know the wire",
		of:   []string{"agent/internal/csi/<backend>"},
		deny: []string{"~/proto", "~/agent/internal/server"},
	},
	{
		name: "local volumes know no shares",
		of: []string{
			"agent/internal/csi/lvm", "controller/internal/backend/lvm", "controller/internal/csi/lvm", "controller/internal/decide/lvm",
		},
		deny: []string{"~/pkg/sharedlun", "~/pkg/sharedvolume", "~/pkg/cephvolume"},
	},
	{
		name: "volumes on shares know no disks",
		of:   []string{"agent/internal/csi/nfs"},
		deny: []string{"~/agent/internal/plan", "~/agent/internal/node", "~/agent/internal/host/disk", "~/agent/internal/host/dm"},
	},
	{
		name:       "work on an open share knows neither mounts nor processes",
		of:         []string{"agent/internal/host/nfs/share"},
		deny:       []string{"~/"},
		allow:      []string{"~/agent/internal/host/nfs/share", "~/pkg/sharedvolume", "~/pkg/quarry", "~/pkg/volumeid"},
		denyDirect: []string{"net", "os/exec"},
	},
	{
		name: "the agent does not know the controller",
		of:   []string{"agent"},
		deny: []string{"~/controller", runtimeModule},
	},
	{
		name:   "the agent has no types of Kubernetes: they cost more memory than all that it does",
		of:     []string{"agent"},
		except: []string{"agent/internal/csi/sanitytest"},
		deny:   []string{kubernetesPrefix, "sigs.k8s.io"},
		allow:  []string{"k8s.io/kubelet/pkg/apis/pluginregistration", "k8s.io/mount-utils", "k8s.io/utils", "k8s.io/klog"},
	},
	{
		name:  "what both sides know is made of the standard library",
		of:    []string{"pkg/quarry", "pkg/refusal", "pkg/transport", "pkg/volumeid", "pkg/pvuuid", "pkg/osd", "pkg/sharedlun", "pkg/sharedvolume", "pkg/cephname", "pkg/cephvolume"},
		deny:  []string{"~/", "github.com", "google.golang.org", "golang.org", kubernetesPrefix, "sigs.k8s.io"},
		allow: []string{"~/pkg/quarry", "~/pkg/volumeid", "~/pkg/osd", "~/pkg/cephname", "~/pkg/cephvolume"}, denyDirect: []string{"os", "os/exec", "net", "net/http"},
	},
	{
		name: "what both CSI shells share knows no driver, no storage and no Kubernetes",
		of:   []string{"pkg/csirpc"},
		deny: []string{"~/", runtimeModule, kubernetesPrefix, "sigs.k8s.io"}, allow: []string{"~/pkg/csirpc", "k8s.io/klog"},
		denyDirect: []string{"os/exec"},
	},
	{
		name:   "only identity talks to the API server",
		of:     []string{"agent/internal"},
		except: []string{"agent/internal/identity"},
		deny:   []string{clientGoModule},
	},
	{
		name: "the controller does not know the agent's code",
		of:   []string{"controller"},
		deny: []string{"~/agent", diskfsModule, blockdevModule, urootModule},
	},
	{
		name:       "reconcilers do not know the wire",
		of:         []string{"controller/internal/reconcile"},
		deny:       []string{"~/controller/internal/setup"},
		denyDirect: []string{"net/http", "os/exec", module + "proto/agent/v1", grpcModule},
	},
	{
		name: "what reconcilers share knows none of them",
		of:   []string{"controller/internal/kube"},
		deny: []string{"~/controller", "~/agent", "~/proto", grpcModule}, allow: []string{"~/controller/internal/kube", "~/controller/internal/decide/notice"},
		denyDirect: []string{"net/http", "os/exec"},
	},
	{
		name: "drivers are deployed from a table, whatever the backend",
		of:   []string{"controller/internal/reconcile/driver"},
		deny: []string{"~/controller"},
		allow: []string{
			"~/controller/internal/reconcile/driver", "~/controller/internal/kube", "~/controller/internal/decide",
		},
	},
	{
		name:  "copies are brought to their source, whatever the backend",
		of:    []string{"controller/internal/reconcile/pin"},
		deny:  []string{"~/controller", "~/pkg/volumeid"},
		allow: []string{"~/controller/internal/reconcile/pin", "~/controller/internal/kube", "~/controller/internal/decide"},
	},
	{
		name: "the engine knows no single backend",
		of: []string{
			"controller/internal/reconcile/storage", "controller/internal/reconcile/driver", "controller/internal/decide/backend", "controller/internal/kube",
		},
		deny: []string{
			"~/controller/internal/backend", "~/controller/internal/decide/<backend>", "~/controller/internal/reconcile/cluster",
			"~/controller/internal/reconcile/<backend>", "~/controller/internal/agents", "~/controller/internal/<backend>",
		},
	},
	{
		name: "the frame of CSI drivers and what all volumes share know no storage type",
		of:   []string{"controller/internal/csi/frame", "controller/internal/decide/volume"},
		deny: []string{
			"~/controller/internal/csi/<backend>", "~/controller/internal/decide/<backend>", "~/pkg/volumeid", "~/pkg/sharedlun", "~/pkg/sharedvolume", "~/pkg/cephvolume", "~/proto",
		},
		denyDirect: []string{"net/http", "os/exec"},
	},
	{
		name:       "the CSI backends of the controller do not know the wire",
		of:         []string{"controller/internal/csi/<backend>", "controller/internal/decide/<backend>"},
		deny:       []string{"~/proto"},
		denyDirect: []string{"net/http", "os/exec", grpcModule},
	},
	{
		name: "reconcilers are on top: only what puts the program together knows them",
		of: []string{
			"controller/internal/agentpod", "controller/internal/agents", "controller/internal/backend", "controller/internal/csi",
			"controller/internal/pki",
		},
		deny: []string{"~/controller/internal/reconcile", "~/controller/internal/setup"},
	},
	{
		name:       "the seam to the monitors of Ceph knows neither Kubernetes nor the wire",
		of:         []string{"controller/internal/ceph"},
		except:     []string{"controller/internal/ceph/execpod"},
		deny:       []string{"~/controller", "~/agent", "~/proto", grpcModule, protobufModule, runtimeModule, clientGoModule, kubernetesPrefix},
		allow:      []string{"~/controller/internal/ceph", "~/controller/internal/decide/ceph", "~/controller/internal/decide/answer"},
		denyDirect: []string{"os/exec", "net", "net/http"},
	},
	{
		name:       "the client of glusterd2 knows neither Kubernetes nor what is to be done",
		of:         []string{"controller/internal/gluster"},
		deny:       []string{"~/", grpcModule, protobufModule, runtimeModule, clientGoModule, kubernetesPrefix},
		allow:      []string{"~/controller/internal/gluster"},
		denyDirect: []string{"os", "os/exec"},
	},
	{
		name: "reading partition tables stays in one place",
		of:   []string{"agent/internal/csi", "agent/internal/node", "agent/internal/plan", "agent/internal/server", "controller", "pkg"},
		deny: []string{diskfsModule},
	},
}

// onlyDirect lists modules that only the named package may import directly.
var onlyDirect = map[string][]string{
	diskfsModule:                  {"agent/internal/host/disk"},
	blockdevModule:                {"agent/internal/host/disk"},
	urootModule:                   {"agent/internal/host/mount"},
	mountinfoModule:               {"agent/internal/host/mount"},
	module + "proto/agent/v1":     {"agent/internal/server", "agent/agenttest", "controller/internal/agents", "test/"},
	"os/exec":                     {"agent/internal/host/run", "test/", "pkg/archtest"},
	"github.com/sirupsen/logrus":  {"agent/internal/host/disk"},
	"github.com/stretchr/testify": {},
}

func expand(prefix string) string {
	if rest, ok := strings.CutPrefix(prefix, "~/"); ok {
		return module + rest
	}
	return prefix
}

// within reports whether an import path is the prefix or below it. A prefix that ends in a slash stands for what is below.
func within(path, prefix string) bool {
	prefix = expand(prefix)
	return path == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
}

func withinAny(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if within(path, p) {
			return true
		}
	}
	return false
}

func relative(path string) string { return strings.TrimPrefix(path, module) }

func bound(path string, prefixes []string) bool {
	for _, p := range prefixes {
		rel := relative(path)
		if rel == strings.TrimSuffix(p, "/") || strings.HasPrefix(rel, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}
