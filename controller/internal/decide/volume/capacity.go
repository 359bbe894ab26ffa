package volume

import "math"

// Capacity is the room for new volumes.
type Capacity struct {
	// Available in all.
	Available int64
	// Largest and Smallest volume that can be made.
	Largest, Smallest int64
}

// Plus adds the room of another host.
func (c Capacity) Plus(o Capacity) Capacity {
	if o.Smallest > 0 && (c.Smallest == 0 || o.Smallest < c.Smallest) {
		c.Smallest = o.Smallest
	}
	sum := c.Available + o.Available
	if sum < 0 {
		sum = math.MaxInt64
	}
	c.Available, c.Largest = sum, max(c.Largest, o.Largest)
	return c
}
