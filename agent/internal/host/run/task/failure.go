package task

import "errors"

// Failure is an error on its way between two processes.
type Failure struct {
	// Kind is the name of the kind of the error, if it has one.
	Kind    string `json:",omitempty"`
	Message string
}

// Kinds are the errors that are told apart on the other side. The first that fits wins.
type Kinds []Kind

// Kind is one of them.
type Kind struct {
	Name string
	Err  error
}

// Failure makes an error ready for its way; nil of nil.
func (k Kinds) Failure(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Message: err.Error()}
	for _, kind := range k {
		if errors.Is(err, kind.Err) {
			f.Kind = kind.Name
			break
		}
	}
	return f
}

// Err is the error again, for errors.Is; nil of nil.
func (k Kinds) Err(f *Failure) error {
	if f == nil {
		return nil
	}
	for _, kind := range k {
		if kind.Name == f.Kind {
			return &carried{message: f.Message, kind: kind.Err}
		}
	}
	return errors.New(f.Message)
}

// carried is an error of another process.
type carried struct {
	message string
	kind    error
}

// Error is the message as it was there.
func (c *carried) Error() string { return c.message }

// Unwrap is the kind.
func (c *carried) Unwrap() error { return c.kind }
