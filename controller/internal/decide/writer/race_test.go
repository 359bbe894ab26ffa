//go:build race

package writer

// The race detector makes a schedule ten times as slow, and finds nothing more in a model without shared memory.
func init() { raceDetector, defaultSchedules = true, 2_000 }
