// Package version holds the version of the build, set by the linker.
package version

// Version of this build, set with -ldflags "-X quarry.storage/quarry/pkg/version.Version=v1.2.3".
var Version = "dev"
