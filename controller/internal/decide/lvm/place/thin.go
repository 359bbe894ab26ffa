package place

// Thin is a thin pool that volumes are made in.
type Thin struct {
	// Pool is its name; empty when volumes are linear.
	Pool string
	// Percent of its size that may be given out; 0 when there is no bound.
	Percent int32
}
