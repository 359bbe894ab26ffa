// Package sanity runs the whole conformance suite of CSI against the real services in a node of the lab: the agent's node service
// and the controller service in the pod that the controller deployed. `make sanity` starts what it needs; test/sanity/run prepares
// the Cluster, and runs the test (build tag sanity) inside the node.
package sanity
