// Package admission has the tests of the admission policies and NetworkPolicies in deploy, over a real API server. It has no code.
package admission
