// Package admission has the tests of the admission policies in deploy/base, over a real API server. It has no code.
package admission
