// Package build makes the programs the lab runs from published Go modules. It
// knows modules and the Go command, not how the programs are used.
package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// modulePath marks the root of the project's checkout.
var modulePath = regexp.MustCompile(`(?m)^module quarry\.storage/quarry$`)

// Checkout finds the project's checkout: above the working directory, or above
// the program itself, which is built into the checkout's bin directory.
func Checkout() (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err == nil && modulePath.Match(b) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("the project's checkout is neither above the working directory nor above this program: run the lab from inside the checkout")
}

// requiredVersion reads the version a go.mod file requires of a module.
func requiredVersion(goMod []byte, module string) (string, error) {
	pattern := regexp.MustCompile(`(?m)^(?:require )?\s*` + regexp.QuoteMeta(module) + ` (v\S+)`)
	m := pattern.FindSubmatch(goMod)
	if m == nil {
		return "", fmt.Errorf("go.mod requires no %s", module)
	}
	return string(m[1]), nil
}

// tools lists the programs of a module that a go.mod file names as tools.
func tools(goMod []byte, module string) []string {
	pattern := regexp.MustCompile(`(?m)^(?:tool )?\s*(` + regexp.QuoteMeta(module) + `/\S+)$`)
	var packages []string
	for _, m := range pattern.FindAllSubmatch(goMod, -1) {
		packages = append(packages, string(m[1]))
	}
	return packages
}
