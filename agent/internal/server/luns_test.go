package server

// noLuns makes the server serve the methods of targets and their LUNs.
type noLuns struct{ Luns }
