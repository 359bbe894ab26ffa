package lvm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"quarry.storage/quarry/agent/internal/host/lvm/thin"
	"quarry.storage/quarry/pkg/quarry"
)

// transactions are the transaction ids that the kernel tells, by the names of the pools' devices.
type transactions map[string]int64

// kernelTransactions asks the kernel for the transaction ids of the pools that are active and hold, or held, volumes. known is false when it
// cannot be asked.
func (l *LVM) kernelTransactions(ctx context.Context, vgs []VG) (out transactions, known bool) {
	out = transactions{}
	if len(measured(vgs)) == 0 {
		return out, true
	}
	res, err := l.dmsetup(ctx, "status", "--noflush", "--target", "thin-pool")
	if err != nil {
		return out, false
	}
	for line := range strings.Lines(string(res.Stdout)) {
		// "group-pool-tpool: 0 409600 thin-pool 2 ..."; a pool that failed has a word in the place of the number.
		name, rest, _ := strings.Cut(line, ": ")
		words := strings.Fields(rest)
		if len(words) < 4 {
			continue
		}
		if n, err := strconv.ParseInt(words[3], 10, 64); err == nil {
			out[name] = n
		}
	}
	return out, true
}

// measured are the thin pools of which the kernel can be asked, by the names of their devices.
func measured(vgs []VG) map[string]*LV {
	out := map[string]*LV{}
	for _, g := range vgs {
		for i, v := range g.Volumes {
			if v.ThinPool && v.Active && v.Thin != nil && v.Thin.TransactionID > 0 {
				out[mapped(g.Name)+"-"+mapped(v.Name)+"-tpool"] = &g.Volumes[i]
			}
		}
	}
	return out
}

func (t transactions) differ(vgs []VG) bool {
	for name, v := range measured(vgs) {
		if id, ok := t[name]; ok && id != v.Thin.TransactionID {
			return true
		}
	}
	return false
}

// drop forgets what the kernel said of a pool that LVM has changed meanwhile.
func (t transactions) drop(before, after []VG) {
	was, is := measured(before), measured(after)
	for name := range t {
		if was[name] == nil || is[name] == nil || was[name].Thin.TransactionID != is[name].Thin.TransactionID {
			delete(t, name)
		}
	}
}

// tell adds to a report what the kernel said. Where it could not be asked, what LVM says of how full a pool is may be of other metadata.
func (t transactions) tell(vgs []VG, known bool) {
	for name, v := range measured(vgs) {
		if id, ok := t[name]; ok {
			v.Thin.KernelTransactionID = &id
		}
		if !known {
			v.UsageUnknown, v.DataPermyriad, v.MetadataPermyriad = true, 0, 0
		}
	}
}

// damages remembers, for the life of the agent, which thin pools could not be activated because of their metadata, and why.
type damages struct {
	mu   sync.Mutex
	pool map[[3]string]string
}

func (d *damages) note(g Owned, name string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pool == nil {
		d.pool = map[[3]string]string{}
	}
	d.pool[[3]string{g.Tag, g.Name, name}] = strings.Join(strings.Fields(err.Error()), " ")
}

// stays is for a pool that was not repaired. That the kernel worked with other metadata than LVM recorded is told of an active pool only, and this one is
// not active any more.
func (d *damages) stays(g Owned, name string, err error) {
	d.mu.Lock()
	_, known := d.pool[[3]string{g.Tag, g.Name, name}]
	d.mu.Unlock()
	if !known {
		d.note(g, name, err)
	}
}

// forget is for a pool whose metadata is another one now.
func (d *damages) forget(g Owned, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pool, [3]string{g.Tag, g.Name, name})
}

// tell adds to a report what is remembered. A pool that is active was repaired.
func (d *damages) tell(vgs []VG) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range vgs {
		for _, tag := range g.Tags {
			for i, v := range g.Volumes {
				key := [3]string{tag, g.Name, v.Name}
				if v.Active {
					delete(d.pool, key)
				}
				if text, ok := d.pool[key]; ok {
					g.Volumes[i].Damage = text
				}
			}
		}
	}
}

// looks remembers, for the life of the agent, in the metadata of which active pools all volumes were found: since when, by the UUIDs of the pools.
// LVM and the kernel change the volumes there one by one, and say when that fails: a pool is looked at once it is active, and until all are found.
type looks struct {
	mu    sync.Mutex
	whole map[string]time.Time
}

// ourTags begin the tags that mark what is ours.
const ourTags = quarry.Group + "/"

// lookInto adds to a report what the metadata of our active pools lacks. Of one that cannot be read nothing is known: how full it is neither.
func (l *LVM) lookInto(ctx context.Context, devices []string, vgs []VG) {
	l.looked.mu.Lock()
	defer l.looked.mu.Unlock()
	for _, g := range vgs {
		for i, v := range g.Volumes {
			ours := slices.ContainsFunc(v.Tags, func(tag string) bool { return strings.HasPrefix(tag, ourTags) })
			since, known := l.looked.whole[v.UUID]
			active := l.activeSince(g.Name, v.Name)
			switch {
			case !v.ThinPool || !ours:
				continue
			case !v.Active:
				delete(l.looked.whole, v.UUID)
				continue
			case known && since.Equal(active) || v.Damage != "" || !v.Thin.comparable():
				continue
			}
			damage, err := l.look(ctx, devices, g, v)
			if err != nil {
				g.Volumes[i].UsageUnknown, g.Volumes[i].DataPermyriad, g.Volumes[i].MetadataPermyriad = true, 0, 0
				continue
			}
			if g.Volumes[i].Damage = damage; damage == "" {
				l.looked.whole[v.UUID] = active
			}
		}
	}
}

// activeSince is when the device of a pool got its name, which is when the pool was activated; zero when there is none.
func (l *LVM) activeSince(group, pool string) time.Time {
	info, err := os.Lstat(filepath.Join(l.dev, "mapper", mapped(group)+"-"+mapped(pool)+"-tpool"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// comparable reports whether the kernel works with metadata of LVM's transaction, or of the one before that LVM has not ended.
func (t *Thin) comparable() bool {
	return t != nil && t.KernelTransactionID != nil && (*t.KernelTransactionID == t.TransactionID || *t.KernelTransactionID == t.TransactionID-1)
}

// look compares the metadata of an active pool with what LVM recorded of it.
func (l *LVM) look(ctx context.Context, devices []string, g VG, pool LV) (damage string, err error) {
	recorded := thin.Pool{TransactionID: pool.Thin.TransactionID}
	for _, v := range g.Volumes {
		if v.Pool == pool.Name && v.Thin != nil {
			recorded.Devices = append(recorded.Devices, thin.Device{ID: v.Thin.DeviceID, TransactionID: v.Thin.TransactionID})
		}
	}
	if len(recorded.Devices) == 0 {
		return "", nil
	}
	pieces, err := l.metadataPieces(ctx, devices, fmt.Sprintf(`vg_uuid="%s"`, g.UUID), pool.Name)
	if err != nil {
		return "", err
	}
	kernel, err := thin.Read(pieces)
	return recorded.Lacks(kernel), err
}
