package volume

// Condition says whether something is wrong with a volume.
type Condition struct {
	Abnormal bool
	// Message is one sentence.
	Message string
}

// Healthy is the condition of a volume with nothing wrong.
func Healthy() Condition { return Condition{Message: "nothing is wrong with the volume"} }

// Abnormal is the condition of a volume with something wrong.
func Abnormal(message string) Condition { return Condition{Abnormal: true, Message: message} }
