package iscsi

import (
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// becomes waits until a node's session with the target has a state, and its path to the LUN with it.
func (c *check) becomes(a Agent, want sharedlun.SessionState) {
	c.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		seen, err := a.GetTarget(c.Context(), c.Target, false)
		c.must(err)
		s := seen.Sessions[0]
		if s.State == want && (s.Message == "") == (want == sharedlun.SessionUp) && seen.Luns[0].Paths[0].Up == (want == sharedlun.SessionUp) {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("%+v", seen)
		}
	}
}

func targetGone(c *check) {
	id := c.login()
	c.must(c.register(c.A, id, keyA, 0))
	c.Stop()
	c.becomes(c.A, sharedlun.SessionDown)
	_, err := c.A.Confirm(c.Context(), id, keyA)
	c.want(err, sharedlun.ErrUnread)
	_, err = c.A.Device(c.Context(), id)
	c.want(err, sharedlun.ErrUnread)
	_, err = c.A.Login(c.Context(), c.Target, nil, nil)
	c.wantReason(err, sharedlun.ReasonTargetUnreachable)
	c.Start()
	c.becomes(c.A, sharedlun.SessionUp)
	_, err = c.A.Confirm(c.Context(), id, keyA)
	c.must(err)
}

// goneForGood: sessions are ended whose target never comes back, also where iscsid was started since and could not take them over. What is in use stays.
func goneForGood(c *check) {
	id := c.login()
	end := c.Hold(id)
	c.Stop()
	for _, a := range []Agent{c.A, c.B} {
		c.becomes(a, sharedlun.SessionDown)
	}
	c.Restart()
	c.wantReason(c.A.Logout(c.Context(), c.Target), sharedlun.ReasonSessionInUse)
	c.becomes(c.A, sharedlun.SessionDown)
	end()
	for _, a := range []Agent{c.A, c.B, c.A} {
		c.must(a.Logout(c.Context(), c.Target))
		seen, err := a.GetTarget(c.Context(), c.Target, false)
		if err != nil || seen.Sessions[0].State != sharedlun.SessionNone || len(seen.Luns) != 0 {
			c.Errorf("%+v, %v", seen, err)
		}
	}
	c.Start()
	c.login()
}

// cutOff: keys that sessions leave behind which somebody else ended are taken off with the node's own, once a path has the key again. Of others' keys none is.
func cutOff(c *check) {
	id := c.login()
	c.must(c.register(c.A, id, keyA, 0))
	c.must(c.register(c.B, id, keyB, 0))
	for n, key := range []uint64{keyA, keyB} {
		a, last := []Agent{c.A, c.B}[n], n == 1
		c.Cut(a)
		c.login()
		_, err := a.Confirm(c.Context(), id, key)
		c.want(err, sharedlun.ErrNoKey)
		// No path can take it off.
		_, err = a.Unregister(c.Context(), id, key, last)
		c.want(err, sharedlun.ErrUnknown)
		c.wantReason(err, sharedlun.ReasonKeyStays)
		c.must(c.register(a, id, key, 0))
		for range 2 {
			_, err = a.Unregister(c.Context(), id, key, last)
			c.must(err)
		}
		c.reserved(id, []uint64{keyA, keyB}[n+1:]...)
	}
}
