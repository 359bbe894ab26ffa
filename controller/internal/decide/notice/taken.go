package notice

import (
	"quarry.storage/quarry/controller/internal/decide/backend"
)

// Teller is a step that people are told of once it was taken. No status shows what it did.
type Teller interface {
	backend.Step
	// Told returns the reason and the message of the event. An empty reason says that there is nothing to tell.
	Told() (reason, message string)
}

// Taken returns the events about steps that were taken.
func Taken(steps []backend.Step) []Note {
	var notes []Note
	for _, s := range steps {
		t, ok := s.(Teller)
		if !ok {
			continue
		}
		if reason, message := t.Told(); reason != "" {
			notes = append(notes, normal(reason, s.Action(), message))
		}
	}
	return notes
}
