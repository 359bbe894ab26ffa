// Package e2e proves the journeys of a user in the lab: a real Kubernetes, real kernels, real disks. `make e2e` starts what it
// needs; the tests themselves (build tag e2e) expect a lab with Quarry installed, named by LAB_NAME.
package e2e
