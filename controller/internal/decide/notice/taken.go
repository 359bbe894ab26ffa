package notice

// Teller is a step that people are told of once it was taken. No status shows what it did.
type Teller interface {
	// Action is what was done.
	Action() string
	// Told returns the reason and the message of the event. An empty reason says that there is nothing to tell.
	Told() (reason, message string)
}

// Taken returns the events about steps that were taken, of those that are Tellers.
func Taken[S any](steps []S) []Note {
	var notes []Note
	for _, s := range steps {
		t, ok := any(s).(Teller)
		if !ok {
			continue
		}
		if reason, message := t.Told(); reason != "" {
			notes = append(notes, normal(reason, t.Action(), message))
		}
	}
	return notes
}
