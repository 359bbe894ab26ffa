package refusal

import (
	"fmt"
	"regexp"
	"strings"
)

// NotExclusive is the sentence of a Busy whose users nobody knows.
const NotExclusive = "The device could not be opened exclusively; something uses it."

// maxUsers is how many users of a device a sentence names.
const maxUsers = 3

// InUse is the sentence of a Busy whose users are known: of many it names some, and counts the others.
func InUse(users []string) string {
	switch n := len(users); {
	case n == 0:
		return NotExclusive
	case n > maxUsers:
		return fmt.Sprintf("%s%s and %d more.", inUse, strings.Join(users[:maxUsers], ", "), n-maxUsers)
	}
	return inUse + strings.Join(users, ", ") + "."
}

// NodeMountedAt names a user of a device: a mount of its device node at the path, as the host itself sees it, or as the process does, if there is one.
func NodeMountedAt(path, process string) string {
	if process == "" {
		return nodeMounted + path
	}
	return nodeMounted + path + asProcess + process + seesIt
}

const inUse, nodeMounted, asProcess, seesIt = "The device is in use by ", "a mount of its device node at ", ", as process ", " sees it"

// OnlyMountedAt reports whether the sentence of InUse names all users of a device, and each of them is a NodeMountedAt of the path, as a process in a container
// sees it. A mount of the host itself, a user that is only counted, and a process with a comma in its name are others.
func OnlyMountedAt(sentence, path string) bool {
	mount := nodeMounted + regexp.QuoteMeta(path) + asProcess + "[^,]+" + seesIt
	return regexp.MustCompile(`^` + inUse + mount + `(, ` + mount + `)*\.$`).MatchString(sentence)
}
