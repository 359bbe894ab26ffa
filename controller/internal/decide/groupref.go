package decide

// GroupRef says which volume group a call is about.
type GroupRef struct {
	// Name of the group, and Owner, the UID of the Cluster in its tag.
	Name, Owner string
	// UUID that LVM gave it: its agent refuses another group of that name. Empty while the group does not exist, and means any of that name.
	UUID string
}
