package lvm

import (
	"cmp"
	"slices"
	"strings"
)

// LV is one logical volume or thin pool.
type LV struct {
	Name, UUID string
	SizeBytes  int64
	// Tags, ordered.
	Tags []string
	// ThinPool is true for a thin pool.
	ThinPool bool
	// Pool is the thin pool that it is in, and Origin the volume that it was copied from while that exists.
	Pool, Origin string
	// Active is true when its device node exists, Open when something has that open.
	Active, Open bool
	// Suspended is true when its device holds back whoever reads or writes, or has a table loaded that does not count yet: a command that
	// changed it was killed.
	Suspended bool
	// Health is empty, or what is wrong in LVM's words: "partial", "needs check", "out of data".
	Health string
	// MetadataBytes of a thin pool, and how much of its data and metadata is allocated, in hundredths of a percent.
	MetadataBytes                    int64
	DataPermyriad, MetadataPermyriad int32
	// UsageUnknown is true for a thin pool of which LVM does not tell how much is allocated: only the kernel knows, while the pool is active.
	UsageUnknown bool
	// Damage says why a thin pool cannot be used: its metadata is damaged. Empty when nobody found that.
	Damage string
	// CreatedUnix is when it was made, in seconds; zero when LVM does not know.
	CreatedUnix int64
	// Extents are where it lies, if it carries TagLocated.
	Extents []Extents
	// Thin is what LVM recorded of a thin pool, or of a volume in one; nil for any other.
	Thin *Thin
}

// Thin is what LVM recorded of a thin pool or thin volume, and what the kernel says of the pool.
type Thin struct {
	// TransactionID counts the changes of the pool that LVM made; of a volume, those before it was made.
	TransactionID int64
	// KernelTransactionID is the one in the metadata of the pool that the kernel works with; nil for one that is not active, and when it is not
	// known.
	KernelTransactionID *int64
	// DeviceID is the number of a volume in the metadata of its pool, ChunkBytes the size of the chunks of a pool.
	DeviceID, ChunkBytes int64
}

// thin reads what LVM recorded of thin pools and volumes, by their UUIDs.
func (p *fields) thin(rows []row) map[string]*Thin {
	out := map[string]*Thin{}
	for _, r := range rows {
		out[p.ID(r, "lv_uuid")] = &Thin{
			TransactionID: p.Optional(r, "transaction_id"), DeviceID: p.Optional(r, "thin_id"), ChunkBytes: p.Optional(r, "chunk_size"),
		}
	}
	return out
}

// Extents are some of a physical volume, one after the other.
type Extents struct {
	// PVUUID is the UUID of the physical volume.
	PVUUID string
	// First is the number of the first one.
	First, Count int64
}

// extents reads where volumes lie, by their UUIDs, in the order of the physical volumes.
func (p *fields) extents(rows []row) map[string][]Extents {
	out := map[string][]Extents{}
	for _, r := range rows {
		uuid := p.ID(r, "lv_uuid")
		out[uuid] = append(out[uuid], Extents{
			PVUUID: p.ID(r, "pv_uuid"), First: p.Number(r, "pvseg_start", 64), Count: p.Number(r, "pvseg_size", 64),
		})
	}
	for _, e := range out {
		slices.SortFunc(e, func(a, b Extents) int { return cmp.Or(cmp.Compare(a.PVUUID, b.PVUUID), cmp.Compare(a.First, b.First)) })
	}
	return out
}

func (p *fields) lv(r row) LV {
	v := LV{
		Name: p.ID(r, "lv_name"), UUID: p.ID(r, "lv_uuid"), SizeBytes: p.Number(r, "lv_size", 64), Tags: p.List(r, "lv_tags"),
		Pool: unbracket(p.Text(r, "pool_lv")), Origin: unbracket(p.Text(r, "origin")),
		Active: p.Known(r, "lv_active_locally"), Open: p.Known(r, "lv_device_open"),
		Health:        p.Text(r, "lv_health_status"),
		MetadataBytes: p.Optional(r, "lv_metadata_size"),
		DataPermyriad: p.Permyriad(r, "data_percent"), MetadataPermyriad: p.Permyriad(r, "metadata_percent"),
		CreatedUnix: p.Optional(r, "lv_time"),
	}
	suspended, loaded := p.Known(r, "lv_suspended"), p.Known(r, "lv_inactive_table")
	v.Suspended = suspended || loaded
	layout := p.List(r, "lv_layout")
	v.ThinPool = slices.Contains(layout, "pool") && slices.Contains(layout, "thin")
	v.UsageUnknown = v.ThinPool && (p.Text(r, "data_percent") == "" || p.Text(r, "metadata_percent") == "")
	if v.ThinPool {
		v.Damage = healthDamage[v.Health]
	}
	return v
}

// healthDamage is what LVM's words for the health of a thin pool say of its metadata.
var healthDamage = map[string]string{
	"failed":             "the kernel gave its metadata up",
	"metadata_read_only": "the kernel only reads its metadata, after an error or because the metadata is full",
}

// unbracket is the name of a hidden volume without its brackets.
func unbracket(name string) string { return strings.Trim(name, "[]") }
