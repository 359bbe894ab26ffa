package subvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// model is a cluster with a filesystem.
func model(t *testing.T) (*Client, *cephtest.Cluster) {
	t.Helper()
	m := cephtest.New(t, fsid, "n0", "n1", "n2")
	m.Servers, m.Volumes = []string{"m"}, cephtest.NewVolumes()
	c, err := ceph.New(ceph.Config{Runner: m, FSID: fsid, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return v, m
}

func TestOpen_refuses(t *testing.T) {
	m := cephtest.New(t, "7a1c6d1e-0000-4000-8000-000000000002", "n0")
	c, err := ceph.New(ceph.Config{Runner: m, FSID: fsid, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c); !errors.Is(err, ceph.ErrForeign) {
		t.Errorf("monitors of another cluster: %v", err)
	}
	m.FSID, m.Monitors = fsid, map[string]bool{"a": false, "b": false, "c": true}
	if _, err := Open(t.Context(), c); !errors.Is(err, ceph.ErrUnreachable) {
		t.Errorf("no quorum: %v", err)
	}
}

// TestLife goes through what becomes of a volume, over the model.
func TestLife(t *testing.T) {
	c, m := model(t)
	ctx := t.Context()
	m.Volumes.Looks = 2
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(c.Create(ctx, "v1", 1<<20))
	v, err := c.Volume(ctx, "v1")
	check(err)
	check(c.Grow(ctx, v, 2<<20))
	check(c.CreateSnapshot(ctx, "v1", "s1"))
	check(c.Copy(ctx, Source{"v1", "s1"}, "v2"))
	if err := c.RemoveSnapshot(ctx, "v1", "s1"); !errors.Is(err, ErrBusy) {
		t.Errorf("a snapshot that is copied is removed: %v", err)
	}
	for v.Name != "v2" || v.State != Whole {
		v, err = c.Volume(ctx, "v2")
		check(err)
	}
	if v.Bytes != 2<<20 || *v.Source != (Source{"v1", "s1"}) {
		t.Errorf("%+v", v)
	}
	check(c.Remove(ctx, "v1"))
	check(c.Remove(ctx, "v1"))
	if v, err = c.Volume(ctx, "v1"); v.State != Retained || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
	check(c.RemoveSnapshot(ctx, "v1", "s1"))
	check(c.RemoveSnapshot(ctx, "v1", "s1"))
	if _, err = c.Volume(ctx, "v1"); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v", err)
	}
	m.Volumes.Grouped = false
	if err := c.Remove(ctx, "v2"); err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("a volume of a group that is gone is removed: %v", err)
	}
	m.Servers = nil
	c.ceph, err = ceph.New(ceph.Config{Runner: m, FSID: fsid, Timeout: 50 * time.Millisecond})
	check(err)
	if _, err := c.Names(ctx); !errors.Is(err, ceph.ErrUnreachable) {
		t.Errorf("no metadata server: %v", err)
	}
}

func TestBlock(t *testing.T) {
	c, _ := model(t)
	ctx, node := t.Context(), addr("fd00::1")
	for _, want := range []bool{true, true, false, false} {
		do := map[bool]func() error{true: func() error { return c.Block(ctx, node, time.Hour) }, false: func() error { return c.Unblock(ctx, node) }}[want]
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Blocked(ctx); slices.Contains(got, node) != want || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// says answers every command with the same text.
type says string

func (s says) Run(context.Context, ceph.Command) (ceph.Result, error) {
	return ceph.Result{Stdout: []byte(s)}, nil
}

// TestLists_partial: what prints no list does not say that there is nothing. A Cluster whose volumes are listed so would be torn down.
func TestLists_partial(t *testing.T) {
	for text, whole := range map[string]bool{"[]": true, "null": false, "{}": false, "": false, `[{"name": ""}]`: false} {
		c, err := ceph.New(ceph.Config{Runner: says(text), FSID: fsid})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&Client{c}).Names(t.Context()); (err == nil) != whole {
			t.Errorf("volumes %q: %v", text, err)
		}
		if _, err := (&Client{c}).Snapshots(t.Context(), "v1"); (err == nil) != whole {
			t.Errorf("snapshots %q: %v", text, err)
		}
	}
}

// steps lead the model through states that were recorded: a command, and what the real Ceph printed for it then.
var steps = []struct{ line, recorded string }{
	{"subvolumegroup create absent quarry", "group_create_no_fs"},
	{"subvolumegroup create quarry quarry", "group_create"},
	{"subvolumegroup create quarry quarry", "group_create_again"},
	{"subvolume ls quarry --group_name quarry", "ls_empty"},
	{"subvolume ls absent --group_name quarry", "ls_no_fs"},
	{"subvolume ls quarry --group_name other", "ls_no_group"},
	{"subvolume create quarry v1 --size 16777216 --group_name quarry --mode 0770", "create"},
	{"subvolume create quarry v1 --size 33554432 --group_name quarry --mode 0770", "create_larger"},
	{"subvolume info quarry v1 --group_name quarry", "info_larger"},
	{"subvolume info quarry v9 --group_name quarry", "info_absent"},
	{"subvolume resize quarry v1 67108864 --group_name quarry --no_shrink", "resize"},
	{"subvolume resize quarry v1 16777216 --group_name quarry --no_shrink", "resize_smaller"},
	{"subvolume resize quarry v9 16777216 --group_name quarry --no_shrink", "resize_absent"},
	{"subvolume snapshot ls quarry v1 --group_name quarry", "snapshot_ls_empty"},
	{"subvolume snapshot create quarry v1 s1 --group_name quarry", "snapshot_create"},
	{"subvolume snapshot create quarry v1 s1 --group_name quarry", "snapshot_create_again"},
	{"subvolume snapshot create quarry v9 s1 --group_name quarry", "snapshot_create_absent"},
	{"subvolume snapshot ls quarry v9 --group_name quarry", "snapshot_ls_absent"},
	{"subvolume snapshot info quarry v1 s1 --group_name quarry", "snapshot_info"},
	{"subvolume snapshot info quarry v1 s9 --group_name quarry", "snapshot_info_absent"},
	{"clone status quarry v1 --group_name quarry", "clone_status_original"},
	{"clone status quarry v9 --group_name quarry", "clone_status_absent"},
	{"subvolume snapshot clone quarry v1 s1 c1 --group_name quarry --target_group_name quarry", "clone"},
	{"subvolume snapshot clone quarry v1 s1 c1 --group_name quarry --target_group_name quarry", "clone_again"},
	{"subvolume snapshot clone quarry v1 s9 c2 --group_name quarry --target_group_name quarry", "clone_of_absent"},
	{"clone status quarry c1 --group_name quarry", "clone_status_pending"},
	{"subvolume info quarry c1 --group_name quarry", "info_pending"},
	{"subvolume resize quarry c1 134217728 --group_name quarry --no_shrink", "resize_pending"},
	{"subvolume create quarry c1 --size 16777216 --group_name quarry --mode 0770", "create_pending"},
	{"subvolume snapshot info quarry v1 s1 --group_name quarry", "snapshot_info_pending"},
	{"subvolume snapshot rm quarry v1 s1 --group_name quarry", "snapshot_rm_pending"},
	{"subvolume snapshot create quarry c1 s1 --group_name quarry", "snapshot_create_pending"},
	{"subvolume rm quarry c1 --group_name quarry", "rm_pending"},
	{"subvolume rm quarry c1 --group_name quarry --force", "rm_force_pending"},
	{"clone cancel quarry c1 --group_name quarry", "clone_cancel"},
	{"clone status quarry c1 --group_name quarry", "clone_status_canceled"},
	{"subvolume info quarry c1 --group_name quarry", "info_canceled"},
	{"subvolume rm quarry c1 --group_name quarry", "rm_canceled"},
	{"subvolume rm quarry c1 --group_name quarry --force", "rm_force_canceled"},
	{"clone cancel quarry c1 --group_name quarry", "clone_cancel_absent"},
	{"SOON", ""},
	{"subvolume snapshot clone quarry v1 s1 c2 --group_name quarry --target_group_name quarry", "clone_2"},
	{"clone status quarry c2 --group_name quarry", "clone_status_complete"},
	{"clone cancel quarry c2 --group_name quarry", "clone_cancel_complete"},
	{"subvolume info quarry c2 --group_name quarry", "info_complete"},
	{"subvolume rm quarry v1 --group_name quarry", "rm_with_snapshots"},
	{"subvolume rm quarry v1 --group_name quarry --retain-snapshots", "rm_retain"},
	{"subvolume info quarry v1 --group_name quarry", "info_retained"},
	{"subvolume resize quarry v1 134217728 --group_name quarry --no_shrink", "resize_retained"},
	{"subvolume snapshot ls quarry v1 --group_name quarry", "snapshot_ls_retained"},
	{"subvolume snapshot create quarry v1 s2 --group_name quarry", "snapshot_create_retained"},
	{"subvolume rm quarry v1 --group_name quarry --retain-snapshots", "rm_retained"},
	{"subvolume rm quarry v1 --group_name quarry", "rm_retained_plain"},
	{"subvolume create quarry v1 --size 16777216 --group_name quarry --mode 0770", "create_retained"},
	{"subvolume info quarry v1 --group_name quarry", "info_recreated"},
	{"subvolume rm quarry v1 --group_name quarry --retain-snapshots", "rm_retain_again"},
	{"subvolume snapshot rm quarry v1 s1 --group_name quarry", "snapshot_rm"},
	{"subvolume snapshot rm quarry v1 s1 --group_name quarry", "snapshot_rm_again"},
	{"subvolume rm quarry c9 --group_name quarry", "rm_again"},
}

// TestStandIn_isLikeCeph: the model ends every command as the real one did in the same state, and prints no field that the real one did not.
func TestStandIn_isLikeCeph(t *testing.T) {
	_, m := model(t)
	m.Volumes.Looks = 1000
	m.Volumes.Grouped = false
	for _, s := range steps {
		if s.line == "SOON" {
			m.Volumes.Looks = 0
			continue
		}
		alike(t, m, strings.Fields("fs "+s.line), s.recorded)
	}
	limits := strings.Split("mon|allow r fsname=cephfs|mds|allow rw fsname=cephfs path=/volumes/quarry|osd|allow rw tag cephfs data=cephfs", "|")
	user := func(verb, who string, more ...string) []string {
		return append(append([]string{"auth", verb, who}, limits...), more...)
	}
	for _, s := range []struct {
		args     []string
		recorded string
	}{
		{[]string{"auth", "get", "client.quarry"}, "auth_get_absent"},
		{user("get-or-create", "client.quarry"), "auth_create"},
		{user("get-or-create", "client.quarry"), "auth_create_again"},
		{[]string{"auth", "get-or-create", "client.quarry", "mon", "allow r"}, "auth_create_other"},
		{[]string{"auth", "get", "client.quarry"}, "auth_get"},
		{user("caps", "client.quarry"), "auth_caps"},
		{user("get-or-create", "client.old", "--key-type", "aes"), "auth_create_aes_refused"},
		{strings.Fields("mon set auth_allowed_ciphers aes,aes256k"), "ciphers"},
		{user("get-or-create", "client.old", "--key-type", "aes"), "auth_create_aes"},
		{user("get-or-create", "client.quarry", "--key-type", "aes"), "auth_create_aes_on_other"},
		{user("get-or-create", "client.x", "--key-type", "rot13"), "auth_bad_type"},
		{strings.Fields("osd blocklist add 10.99.0.4 3600"), "blocklist_add"},
		{strings.Fields("osd blocklist add x 3600"), "blocklist_add_bad"},
		{strings.Fields("osd blocklist rm 10.99.0.4"), "blocklist_rm"},
		{strings.Fields("osd blocklist rm 10.99.0.4"), "blocklist_rm_again"},
	} {
		alike(t, m, s.args, s.recorded)
	}
}

func alike(t *testing.T, m *cephtest.Cluster, args []string, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	got, err := m.Run(ctx, ceph.Command{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	want := recorded(t, name)
	said := func(r ceph.Result) string {
		i := strings.Index(string(r.Stderr), "Error E")
		if i < 0 {
			return ""
		}
		return strings.Fields(string(r.Stderr[i:]))[1]
	}
	if got.ExitCode != want.ExitCode || said(got) != said(want) {
		t.Errorf("ceph %s: %d %s; Ceph ends with %d %s", strings.Join(args, " "), got.ExitCode, got.Stderr, want.ExitCode, want.Stderr)
		return
	}
	var model, real any
	if strings.TrimSpace(string(got.Stdout)) == "" {
		if strings.TrimSpace(string(want.Stdout)) != "" {
			t.Errorf("ceph %s prints nothing, and Ceph %s", strings.Join(args, " "), want.Stdout)
		}
		return
	}
	if err := errors.Join(json.Unmarshal(got.Stdout, &model), json.Unmarshal(want.Stdout, &real)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if diff := unlike("", model, real); diff != "" {
		t.Errorf("ceph %s: %s", strings.Join(args, " "), diff)
	}
}

// unlike says where the model's answer has something that the real one has not.
func unlike(path string, model, real any) string {
	if fmt.Sprintf("%T", model) != fmt.Sprintf("%T", real) {
		return fmt.Sprintf("%s is %T, and %T in the model", path, real, model)
	}
	switch m := model.(type) {
	case map[string]any:
		for key, value := range m {
			found, there := real.(map[string]any)[key]
			if !there {
				return fmt.Sprintf("%s.%s is not there", path, key)
			}
			if diff := unlike(path+"."+key, value, found); diff != "" {
				return diff
			}
		}
	case []any:
		for i, value := range m {
			diff := fmt.Sprintf("%s[%d]: the real one is empty", path, i)
			for _, found := range real.([]any) {
				if diff = unlike(fmt.Sprintf("%s[%d]", path, i), value, found); diff == "" {
					break
				}
			}
			if diff != "" {
				return diff
			}
		}
	}
	return ""
}
