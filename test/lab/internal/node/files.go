package node

import (
	"encoding/json"
	"path/filepath"

	"quarry.storage/quarry/test/lab/internal/spec"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	containerdFile   = runDir + "/containerd.toml"
	cniDir           = runDir + "/cni"
	kubeletFile      = runDir + "/kubelet.json"
)

// containerdConfig leaves everything at its default but the places and the
// image of the pod sandbox.
const containerdConfig = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "` + containerdSocket + `"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "` + spec.PauseImage + `"

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "` + cniDir + `"
`

// object is a piece of configuration in JSON.
type object = map[string]any

func writeServiceFiles(c Config) error {
	if err := writeFile(containerdFile, containerdConfig); err != nil {
		return err
	}
	for path, content := range map[string]object{
		cniDir + "/10-lab.conflist": cniConfig(c),
		kubeletFile:                 kubeletConfig(c),
	} {
		text, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return err
		}
		if err := writeFile(path, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// cniConfig puts the pods on a bridge. There is no masquerading: the other
// nodes and the control plane have routes to the pods.
func cniConfig(c Config) object {
	return object{
		"cniVersion": "1.0.0", "name": "lab",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
				"ipam": object{
					"type":   "host-local",
					"ranges": [][]object{{{"subnet": c.PodCIDR}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
}

// kubeletConfig turns off what a user-mode kernel cannot do and makes the
// kubelet notice and report changes quickly.
func kubeletConfig(c Config) object {
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": filepath.Join(c.PKI, "ca.crt")},
		},
		"authorization":                 object{"mode": "Webhook"},
		"tlsCertFile":                   filepath.Join(c.PKI, "kubelet-"+c.Name+".crt"),
		"tlsPrivateKeyFile":             filepath.Join(c.PKI, "kubelet-"+c.Name+".key"),
		"cgroupDriver":                  "cgroupfs",
		"cgroupsPerQOS":                 false,
		"enforceNodeAllocatable":        []string{},
		"failSwapOn":                    false,
		"localStorageCapacityIsolation": false,
		"containerRuntimeEndpoint":      "unix://" + containerdSocket,
		"imageGCHighThresholdPercent":   100,
		"evictionHard":                  object{"memory.available": "10Mi"},
		"nodeStatusUpdateFrequency":     "4s",
		"nodeLeaseDurationSeconds":      20,
		// Tests kill agents again and again, and each has to be back soon.
		"crashLoopBackOff": object{"maxContainerRestartPeriod": "2s"},
		"registerNode":     true,
	}
}

func kubeletArgs(c Config) []string {
	return []string{
		"--config=" + kubeletFile,
		"--kubeconfig=" + filepath.Join(c.PKI, "kubelet-"+c.Name+".kubeconfig"),
		"--hostname-override=" + c.Name,
		"--node-ip=" + c.IP,
		"--v=2",
		// Nobody reads how much each container uses; to find it out takes a fifth of the kubelet's time.
		"--housekeeping-interval=60s",
	}
}
