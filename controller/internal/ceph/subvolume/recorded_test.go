package subvolume

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/pkg/cephvolume"
)

const fsid = "7a1c6d1e-0000-4000-8000-000000000001"

// recorded returns what a real Ceph 20.2.4 printed; see test/ceph/record-volumes.sh.
func recorded(t testing.TB, name string) ceph.Result {
	t.Helper()
	path := filepath.Join("testdata/volumes", name)
	if said, err := os.ReadFile(path + ".exit"); err == nil {
		code, rest, _ := strings.Cut(string(said), "\n")
		n, err := strconv.Atoi(code)
		if err != nil {
			t.Fatal(err)
		}
		return ceph.Result{ExitCode: n, Stderr: []byte(rest)}
	}
	out, err := os.ReadFile(path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return ceph.Result{Stdout: out}
}

// script answers command after command with what was recorded. The filesystem of the recording has another name.
type script struct {
	t     testing.TB
	names []string
}

func (s *script) Run(_ context.Context, cmd ceph.Command) (ceph.Result, error) {
	if len(s.names) == 0 {
		s.t.Errorf("ceph %q was not expected", cmd.Args)
		return ceph.Result{}, errors.New("not expected")
	}
	name := s.names[0]
	s.names = s.names[1:]
	r := recorded(s.t, name)
	r.Stdout = []byte(strings.ReplaceAll(string(r.Stdout), `"volume": "cephfs"`, `"volume": "quarry"`))
	r.Stdout = []byte(strings.ReplaceAll(string(r.Stdout), `"name":"cephfs.data"`, `"name":"quarry-data"`))
	return r, nil
}

// on makes a Client that gets these answers, and no more.
func on(t *testing.T, names ...string) *Client {
	t.Helper()
	s := &script{t, names}
	c, err := ceph.New(ceph.Config{Runner: s, FSID: fsid})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if len(s.names) > 0 {
			t.Errorf("not asked: %v", s.names)
		}
	})
	return &Client{c}
}

func TestVolume_recorded(t *testing.T) {
	made := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		answers []string
		want    Volume
		err     error
	}{
		"a volume":            {[]string{"info"}, Volume{State: Whole, Bytes: 16 << 20}, nil},
		"a copy":              {[]string{"info_complete"}, Volume{State: Whole, Bytes: 16 << 20, Source: &Source{"v1", "s1"}}, nil},
		"a copy being made":   {[]string{"info_pending", "clone_status_pending"}, Volume{State: Copying, Source: &Source{"v1", "s1"}}, nil},
		"a copy just made":    {[]string{"info_pending", "clone_status_complete"}, Volume{State: Copying}, nil},
		"a copy given up":     {[]string{"info_canceled", "clone_status_canceled"}, Volume{State: Failed, Source: &Source{"v1", "s1"}, Problem: "user interrupted clone operation"}, nil},
		"what is left of one": {[]string{"info_retained"}, Volume{State: Retained}, nil},
		"none":                {[]string{"info_absent", "ls"}, Volume{}, ErrAbsent},
		"no group":            {[]string{"info_no_group", "ls_no_group"}, Volume{}, nil},
		"no filesystem":       {[]string{"info_no_fs", "ls_no_fs"}, Volume{}, nil},
		"gone meanwhile":      {[]string{"info_pending", "clone_status_absent", "ls"}, Volume{}, ErrAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := on(t, tt.answers...).Volume(t.Context(), "v9")
			if tt.want.State == "" {
				if err == nil || errors.Is(err, ErrAbsent) != (tt.err != nil) {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.State == Whole && (!strings.HasPrefix(got.Path, "/volumes/quarry/") || got.Created.Before(made)) {
				t.Errorf("%+v", got)
			}
			source := func(v Volume) Source {
				if v.Source == nil {
					return Source{}
				}
				return *v.Source
			}
			if got.State != tt.want.State || got.Bytes != tt.want.Bytes || got.Problem != tt.want.Problem || source(got) != source(tt.want) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestRecorded_missing: that a group, or a filesystem, is missing never says that a volume is.
func TestRecorded_missing(t *testing.T) {
	ctx := t.Context()
	for name, tt := range map[string]struct {
		err  error
		want error
	}{
		"removed":                       {on(t, "rm_again", "ls").Remove(ctx, "c3"), nil},
		"removed, and the group gone":   {on(t, "rm_no_group", "ls_no_group").Remove(ctx, "c3"), errAny},
		"removed, no filesystem":        {on(t, "rm_no_fs", "ls_no_fs").Remove(ctx, "c3"), errAny},
		"removed with snapshots":        {on(t, "rm_retain").Remove(ctx, "v1"), nil},
		"removed again":                 {on(t, "rm_retained").Remove(ctx, "v1"), nil},
		"removed while it is copied":    {on(t, "rm_pending").Remove(ctx, "c1"), ErrBusy},
		"a copy discarded":              {on(t, "rm_force_canceled").Discard(ctx, "c1"), nil},
		"a snapshot":                    {on(t, "snapshot_rm").RemoveSnapshot(ctx, "v1", "s1"), nil},
		"a snapshot, and no more":       {on(t, "snapshot_rm_absent", "snapshot_ls_complete").RemoveSnapshot(ctx, "c3", "s9"), nil},
		"a snapshot of no volume":       {on(t, "snapshot_rm_again", "snapshot_ls_absent", "ls").RemoveSnapshot(ctx, "v9", "s1"), nil},
		"a snapshot that is copied":     {on(t, "snapshot_rm_pending").RemoveSnapshot(ctx, "v1", "s1"), ErrBusy},
		"a snapshot of what is left":    {on(t, "snapshot_create_retained", "ls_retained").CreateSnapshot(ctx, "v1", "s2"), errAny},
		"a copy of no snapshot":         {on(t, "clone_of_absent", "snapshot_ls").Copy(ctx, Source{"v1", "s9"}, "c2"), ErrAbsent},
		"a copy of no volume":           {on(t, "clone_of_absent_volume", "snapshot_ls_absent", "ls").Copy(ctx, Source{"v9", "s9"}, "c2"), ErrAbsent},
		"a copy with a name in use":     {on(t, "clone_again").Copy(ctx, Source{"v1", "s1"}, "c1"), ErrExists},
		"growing while it is copied":    {on(t, "resize_pending").Grow(ctx, Volume{Name: "c1", State: Whole, Bytes: 1}, 2), ErrBusy},
		"growing what is smaller":       {on(t).Grow(ctx, Volume{Name: "v1", State: Whole, Bytes: 2}, 1), ceph.ErrUnsafe},
		"a group that exists":           {on(t, "group_create_again").EnsureGroup(ctx), nil},
		"a group of no filesystem":      {on(t, "group_create_no_fs").EnsureGroup(ctx), errAny},
		"a stop of what is whole":       {on(t, "clone_cancel_complete").Cancel(ctx, "c2"), ceph.ErrRefused},
		"a stop of what does not exist": {on(t, "clone_cancel_absent", "ls").Cancel(ctx, "v9"), ErrAbsent},
	} {
		switch {
		case errors.Is(tt.want, errAny) && (tt.err == nil || errors.Is(tt.err, ErrAbsent)), !errors.Is(tt.want, errAny) && !errors.Is(tt.err, tt.want), tt.want == nil && tt.err != nil:
			t.Errorf("%s: %v, want %v", name, tt.err, tt.want)
		}
	}
}

var errAny = errors.New("any, but not that it is absent")

func TestSnapshot_recorded(t *testing.T) {
	for answer, copying := range map[string]bool{"snapshot_info": false, "snapshot_info_pending": true, "snapshot_info_retained": false} {
		s, err := on(t, answer).Snapshot(t.Context(), "v1", "s1")
		if err != nil || s.Copying != copying || s.Created.Year() != 2026 {
			t.Errorf("%s: %+v, %v", answer, s, err)
		}
	}
	if _, err := on(t, "snapshot_info_absent", "snapshot_ls").Snapshot(t.Context(), "v1", "s9"); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
	if list, err := on(t, "snapshot_ls_retained").Snapshots(t.Context(), "v1"); err != nil || len(list) != 1 || list[0] != "s1" {
		t.Errorf("%v, %v", list, err)
	}
	if room, err := on(t, "df").Room(t.Context()); err != nil || room < 1<<30 || room > 6<<30 {
		t.Errorf("room %d, %v", room, err)
	}
}

// TestUser_recorded: the key is read, and is in no error.
func TestUser_recorded(t *testing.T) {
	const begin = "AgA/zQVr"
	for name, tt := range map[string]struct {
		answers []string
		cipher  cephvolume.Cipher
		want    error
	}{
		"a new one":                {[]string{"auth_create"}, "", nil},
		"the same again":           {[]string{"auth_create_again"}, cephvolume.CipherAES256, nil},
		"with other limits":        {[]string{"auth_create_other", "auth_get", "auth_caps"}, "", nil},
		"of a kind that is not on": {[]string{"auth_create_aes_refused", "auth_get_absent"}, cephvolume.CipherAES, ceph.ErrRefused},
		"of another kind":          {[]string{"auth_create_aes_on_other"}, cephvolume.CipherAES, ErrCipher},
		"for old kernels":          {[]string{"auth_create_aes"}, cephvolume.CipherAES, nil},
	} {
		key, err := on(t, tt.answers...).EnsureUser(t.Context(), tt.cipher)
		if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) || err != nil && strings.Contains(err.Error(), begin) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if err == nil && tt.cipher != cephvolume.CipherAES && !strings.HasPrefix(key.Reveal(), begin) {
			t.Errorf("%s: no key", name)
		}
	}
}

func TestBlocked_recorded(t *testing.T) {
	for answer, want := range map[string][]netip.Addr{"blocklist_ls": {addr("10.99.0.4")}, "blocklist_ls_empty": nil} {
		if got, err := on(t, answer).Blocked(t.Context()); !slices.Equal(got, want) || err != nil {
			t.Errorf("%s: %v, %v", answer, got, err)
		}
	}
	if node, err := wholeNode("10.0.0.1:0/3710147553"); node.IsValid() || err != nil {
		t.Errorf("one client counts as its node: %v, %v", node, err)
	}
	if node, err := wholeNode("[fd00::1]:0/0"); node != addr("fd00::1") || err != nil {
		t.Errorf("%v, %v", node, err)
	}
}

// TestRecorded_traps: what Ceph does that its words do not say.
func TestRecorded_traps(t *testing.T) {
	quota := func(name string) float64 {
		var list []map[string]any
		if err := json.Unmarshal(recorded(t, name).Stdout, &list); err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			if q, is := o["bytes_quota"].(float64); is {
				return q
			}
		}
		return 0
	}
	if quota("resize") != 64<<20 || quota("resize_smaller") != 16<<20 {
		t.Error("--no_shrink keeps a volume from becoming smaller: Grow need not look")
	}
	if r := recorded(t, "create_larger"); r.ExitCode != 0 || !strings.Contains(string(recorded(t, "info_larger").Stdout), `"bytes_quota": 33554432`) {
		t.Errorf("creating again with another size is refused: callers need not look: %+v", r)
	}
	for _, name := range []string{"ls_no_mds", "ls_no_mgr"} {
		if r := recorded(t, name); r.ExitCode != 124 {
			t.Errorf("%s: %+v: without anybody who could answer, Ceph does not wait for ever", name, r)
		}
	}
}
