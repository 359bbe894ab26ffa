package iscsi

// Occupy has so many calls wait for a fence.
func (b *Backend) Occupy(calls int) {
	for range calls {
		b.waiting <- struct{}{}
	}
}
