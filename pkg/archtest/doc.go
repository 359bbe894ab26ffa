// Package archtest holds the project's import rules as tests, so that a boundary that the compiler cannot keep is kept by
// `make unit`. It has no code of its own.
package archtest
