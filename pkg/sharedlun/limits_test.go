package sharedlun

import "testing"

// TestLimits: nobody stops waiting before the work has to be over, and a process that waits for one answer is not taken for gone.
func TestLimits(t *testing.T) {
	answer := AnswerTimeout(ChangeTimeout)
	if answer <= ChangeTimeout+LookTimeout {
		t.Errorf("an answer is waited for %s, a change and the look after it take %s", answer, ChangeTimeout+LookTimeout)
	}
	if DeviceTimeout < answer {
		t.Errorf("a promise is waited for %s, a change that it waits for takes %s", DeviceTimeout, answer)
	}
	if Patience <= answer || Patience <= DeviceTimeout {
		t.Errorf("a process is stale after %s, and waits %s or %s for one answer", Patience, answer, DeviceTimeout)
	}
}
