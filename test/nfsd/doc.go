// Package nfsd runs the kernel's NFS server beside a test, in a network namespace of its own, so that the server's cable can be cut. It
// is for tests on real kernels (build tag hostroot), as root.
package nfsd
