package ceph

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/osd/osdtest"
)

func key(t *testing.T) osd.Key {
	t.Helper()
	k, err := osd.NewKey(bytes.Repeat([]byte("k"), osd.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// kernel has a part, or not.
type kernel struct {
	has bool
	err error
}

func (k kernel) look(_ context.Context, name string) (bool, error) {
	if name != "dm_crypt" {
		return false, errors.New("another part")
	}
	return k.has, k.err
}

// install puts programs into the container.
func install(t *testing.T, root string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "usr/sbin"), 0o755), os.WriteFile(filepath.Join(root, p), []byte("#!"), 0o755)); err != nil { //nolint:gosec // It stands for a program.
			t.Fatal(err)
		}
	}
}

func TestFindEncryption(t *testing.T) {
	both := []string{cryptsetup, dmsetup}
	for name, tt := range map[string]struct {
		programs []string
		kernel   kernel
		want     error
		fails    bool
	}{
		"all is there":              {both, kernel{has: true}, nil, false},
		"the kernel has it not":     {both, kernel{}, ErrNoEncryption, true},
		"nobody can tell":           {both, kernel{err: errors.New("x")}, nil, true},
		"an image without it":       {both[1:], kernel{has: true}, ErrNoEncryption, true},
		"an image without the tool": {both[:1], kernel{has: true}, ErrNoEncryption, true},
	} {
		proc, root := node(t, "0::/kubepods/pod1/"+container+"\n")
		install(t, root, tt.programs...)
		fake := run.NewFake()
		err := New(Config{Runner: fake, Proc: proc, Kernel: tt.kernel.look}).FindEncryption(t.Context(), container)
		if (err != nil) != tt.fails || tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && errors.Is(err, ErrNoEncryption) {
			t.Errorf("%s: %v", name, err)
		}
		if err := New(Config{Runner: fake, Proc: proc}).FindEncryption(t.Context(), strings.Repeat("f", 64)); !errors.Is(err, ErrNoContainer) {
			t.Error(err)
		}
	}
}

// writes stands for cryptsetup: it writes a file, and returns what it read on standard input.
func writes(t *testing.T, content []byte, read *[]string) func(context.Context, run.Command) error {
	return func(_ context.Context, cmd run.Command) error {
		*read = append(*read, string(cmd.Stdin))
		file := filepath.Join(cmd.Root, cmd.Args[len(cmd.Args)-1])
		if info, err := os.Stat(file); err != nil || info.Size() != fileBytes || info.Mode() != 0o600 {
			t.Errorf("the file of cryptsetup: %v, %v", info, err)
		}
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		return errors.Join(err, f.Close())
	}
}

func TestSeal(t *testing.T) {
	proc, root := node(t, "0::/kubepods/pod1/"+container+"\n")
	if err := os.WriteFile(filepath.Join(root, "tmp/quarry-luks-"+uuid), []byte("left behind"), 0o600); err != nil {
		t.Fatal(err)
	}
	content := append(osdtest.Headers(osd.Header{UUID: uuid, FSID: fsid, Sequence: 4, SizeBytes: 1 << 30}), bytes.Repeat([]byte{7}, osd.SlotsBytes)...)
	var read []string
	fake := run.NewFake(run.Step{}, run.Step{})
	tool := New(Config{Runner: run.Hook{Next: fake, Before: writes(t, content, &read)}, Proc: proc})
	got, err := tool.Seal(t.Context(), Seal{Container: container, UUID: uuid, FSID: fsid, SizeBytes: 1 << 30, Key: key(t)})
	if err != nil || !bytes.Equal(got, content[:osd.SlotsBytes]) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	file := "/tmp/quarry-luks-" + uuid
	want := [][]string{
		{
			cryptsetup, "luksFormat", "--batch-mode", "--disable-locks", "--type", "luks2", "--uuid", uuid, "--label", "quarry-osd", "--subsystem", fsid,
			"--cipher", "aes-xts-plain64", "--key-size", "512", "--hash", "sha256", "--sector-size", "4096", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000",
			"--luks2-metadata-size", "16k", "--luks2-keyslots-size", "16352k", "--offset", "32768", "--key-file", "-", file,
		},
		{cryptsetup, "token", "import", "--disable-locks", "--token-id", "0", "--json-file", "-", file},
	}
	for i, call := range fake.Calls() {
		if !slices.Equal(call.Argv(), want[i]) {
			t.Errorf("%q", call.Argv())
		}
	}
	if wanted := []string{string(key(t).Reveal()), `{"keyslots":[],"size":"1073741824","type":"quarry-osd"}`}; !slices.Equal(read, wanted) {
		t.Errorf("cryptsetup read %q", read)
	}
	if _, err := os.Stat(filepath.Join(root, file)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file stays: %v", err)
	}
	if _, err := tool.Seal(t.Context(), Seal{Container: container, UUID: uuid, FSID: fsid, SizeBytes: 1 << 30}); err == nil {
		t.Error("it was sealed without a key")
	}
}

func TestOpen(t *testing.T) {
	proc, _ := node(t, "0::/kubepods/pod1/"+container+"\n")
	o := Open{Container: container, UUID: uuid, Device: osd7.Device, Number: osd7.Number, Key: key(t)}
	fake := run.NewFake(run.Step{})
	if err := New(Config{Runner: fake, Proc: proc, Number: sees}).Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want := []string{cryptsetup, "open", "--batch-mode", "--disable-locks", "--disable-keyring", "--type", "luks2", "--key-file", "-", osd7.Device, "quarry-osd-" + uuid}
	call := fake.Calls()[0]
	if !slices.Equal(call.Argv(), want) || string(call.Stdin) != string(key(t).Reveal()) || !slices.Equal(call.Env, []string{"DM_DISABLE_UDEV=1"}) {
		t.Errorf("%+v", call)
	}
	for name, change := range map[string]func(*Open){
		"no key": func(o *Open) { o.Key = osd.Key{} }, "no UUID": func(o *Open) { o.UUID = "x" }, "no disk": func(o *Open) { o.Device = "/etc/passwd" },
		"another disk": func(o *Open) { o.Number++ }, "another container": func(o *Open) { o.Container = strings.Repeat("f", 64) },
	} {
		bad, fake := o, run.NewFake()
		change(&bad)
		if err := New(Config{Runner: fake, Proc: proc, Number: sees}).Open(t.Context(), bad); err == nil || len(fake.Calls()) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// outside runs cryptsetup of this machine on the files of the container.
type outside struct{}

func (outside) Run(ctx context.Context, cmd run.Command) (run.Result, error) {
	root, err := os.Readlink(cmd.Root)
	if err != nil {
		return run.Result{}, err
	}
	cmd.Args = slices.Clone(cmd.Args)
	cmd.Args[len(cmd.Args)-1], cmd.Root = filepath.Join(root, cmd.Args[len(cmd.Args)-1]), ""
	return run.Real{}.Run(ctx, cmd)
}

// TestSeal_cryptsetup: what cryptsetup makes is read as the OSD's, and opens with the key alone, before it is finished and after it. A call that is killed is repeated.
func TestSeal_cryptsetup(t *testing.T) {
	if _, err := os.Stat(cryptsetup); err != nil {
		t.Skip("cryptsetup is not installed: make deps does it")
	}
	proc, _ := node(t, "0::/kubepods/pod1/"+container+"\n")
	tool := New(Config{Runner: outside{}, Proc: proc})
	s := Seal{Container: container, UUID: uuid, FSID: fsid, SizeBytes: 1 << 30, Key: key(t)}
	for limit := time.Millisecond; limit < 64*time.Millisecond; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, _ = tool.Seal(ctx, s) // It is killed at some time; the next one has to end well.
		cancel()
	}
	made, err := tool.Seal(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	done, err := tool.Finish(t.Context(), container, uuid, made)
	if err != nil {
		t.Fatal(err)
	}
	drawn := osd.ParseHeaders(made)[0].Salt
	again, err := tool.Seal(t.Context(), s)
	if err != nil || drawn == osd.ParseHeaders(again)[0].Salt {
		t.Errorf("what is made anew has the same salt: %v", err)
	}
	for ready, b := range map[bool][]byte{false: made, true: append(done, made[osd.HeadersBytes:]...)} {
		for off, h := range osd.ParseHeaders(b) {
			want := osd.Header{Offset: int64(off) * osd.HeaderBytes, UUID: uuid, FSID: fsid, SizeBytes: 1 << 30, Ready: ready, Sequence: h.Sequence}
			// That which the disk was given at first stays: it tells this making from others.
			if off == 0 {
				want.Salt = drawn
			}
			if h != want {
				t.Errorf("ready %t: %+v", ready, h)
			}
		}
		if !opens(t, b, s.Key.Reveal()) || opens(t, b, bytes.Repeat([]byte("x"), osd.KeyBytes)) {
			t.Errorf("ready %t: its key does not open it, or another one does", ready)
		}
	}
}

// opens reports whether a secret opens a disk that begins so.
func opens(t *testing.T, start, secret []byte) bool {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(disk, start, 0o600), os.Truncate(disk, 1<<30)); err != nil {
		t.Fatal(err)
	}
	_, err := run.Real{}.Run(t.Context(), run.Command{Path: cryptsetup, Stdin: secret, Args: []string{"open", "--test-passphrase", "--disable-locks", "--key-file", "-", disk}})
	return err == nil
}
