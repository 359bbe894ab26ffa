// Package driver keeps what a CSI driver needs in the cluster, for as long as a Cluster uses it: the CSIDriver object, the
// Deployment with the CSI controller and its sidecars, and the classes of snapshots.
package driver
