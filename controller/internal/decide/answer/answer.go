// Package answer has what may be said to a question of a decision: yes, no, or that nobody could tell. It is pure.
package answer

// Answer is what somebody says to a question. The zero value is that nobody could tell, and never counts as one of the others.
type Answer int

// Answers.
const (
	Unknown Answer = iota
	No
	Yes
)

// String is the answer as one word.
func (a Answer) String() string { return [...]string{"unknown", "no", "yes"}[a] }

// Of is the answer that a known fact gives.
func Of(is bool) Answer {
	if is {
		return Yes
	}
	return No
}
