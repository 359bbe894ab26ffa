package spec

import "fmt"

// The address plan. All of it lives inside the lab's network namespace, so two
// labs use the same addresses without meeting.
const (
	// ClusterBridge carries the nodes' and the control plane's traffic.
	ClusterBridge = "br0"
	// CutBridge is where the taps of nodes go whose link is cut; it is down.
	CutBridge = "cut0"
	// ManagementBridge carries `lab exec`, so that it works while a node's
	// cluster link is cut.
	ManagementBridge = "mgmt0"

	// ControlPlane is where the API server listens.
	ControlPlane = "10.99.0.1"
	// APIServerPort is the API server's port on ControlPlane.
	APIServerPort = 6443
	// ServiceCIDR is the range of cluster service addresses.
	ServiceCIDR = "10.96.0.0/16"
	// APIServiceIP is the service address of the API server.
	APIServiceIP = "10.96.0.1"
	// PodCIDR is the range all pods are in.
	PodCIDR = "10.244.0.0/16"
	// ManagementHost is the machine's end of the management network.
	ManagementHost = "10.98.0.1"
	// ExecPort is where a node's exec server listens on its management address.
	ExecPort = 1022
)

// NetworkNamespace is the name of the namespace that holds a lab.
func NetworkNamespace(lab string) string { return "quarry-" + lab }

// NodeIP is the address of a node on the cluster bridge.
func NodeIP(index int) string { return fmt.Sprintf("10.99.0.%d", 10+index) }

// ManagementIP is the address of a node on the management bridge.
func ManagementIP(index int) string { return fmt.Sprintf("10.98.0.%d", 10+index) }

// NodePodCIDR is the range of the pods of one node.
func NodePodCIDR(index int) string { return fmt.Sprintf("10.244.%d.0/24", index) }

// ClusterTap is the tap device behind a node's cluster interface.
func ClusterTap(index int) string { return fmt.Sprintf("tap-n%d", index) }

// ManagementTap is the tap device behind a node's management interface.
func ManagementTap(index int) string { return fmt.Sprintf("mgmt-n%d", index) }
