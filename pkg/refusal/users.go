package refusal

import "regexp"

// NotExclusive is the sentence of a Busy whose users nobody knows.
const NotExclusive = "The device could not be opened exclusively; something uses it."

// OnlyMountedAt reports whether the sentence of a Busy names all users of a device, and each of them is a mount of its device node at the path, as a process in a container
// sees it. A mount of the host itself, a user that is only counted, and a process with a comma in its name are others.
func OnlyMountedAt(sentence, path string) bool {
	mount := "a mount of its device node at " + regexp.QuoteMeta(path) + ", as process [^,]+ sees it"
	return regexp.MustCompile(`^The device is in use by ` + mount + `(, ` + mount + `)*\.$`).MatchString(sentence)
}
