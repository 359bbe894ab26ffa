package writer

// Standing is what somebody knows of a node who asks whether it may change the group.
type Standing struct {
	// Answers is true while its agent answers in the boot that it was let in for, and the node is not being removed.
	Answers bool
	// Admitted is true when a key is on record for it, or it was let in without one.
	Admitted bool
	// Fenced is true once its key was taken off, until it gets another one.
	Fenced bool
	// Maintenance is true while somebody asked for it.
	Maintenance bool
}

// MayChange reports whether a node may be the writer, be given a volume, or zero one. Whether the LUN lets it write is not asked here: that the target says, each
// time.
func (s Standing) MayChange() bool {
	return s.Answers && s.Admitted && !s.Fenced && !s.Maintenance
}
