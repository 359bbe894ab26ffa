// Package recorded holds the stand-in for glusterd2 to answers of real servers: its test plays all that was asked, in the order in which it was asked,
// and compares. The recordings are in testdata, see the README there.
package recorded
