// Package lio makes iSCSI targets of the node's own kernel for tests: LUNs in files, portals on the node's addresses, and initiators that act
// as two hosts in one kernel.
package lio
