package transport

import "testing"

func TestOnRequest(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, SATA: false, SAS: false, SCSI: false, NVMe: false, Virtio: false, Xen: false, MMC: false, NVDIMM: false, "something": false,
		USB: true, ISCSI: true, FC: true, "nvme-tcp": true, "nvme-rdma": true, "nvme-fc": true, "nvme-of-tomorrow": true,
		NBD: true, RBD: true, RNBD: true, AoE: true, DRBD: true,
	} {
		if got := OnRequest(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
