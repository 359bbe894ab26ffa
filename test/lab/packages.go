package main

import _ "embed"

// packageList is the one list of Debian packages the lab needs.
//
//go:embed packages.txt
var packageList string
