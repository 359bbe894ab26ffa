//go:build sanity

package sanity

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// patience is how long a call is made anew.
const patience = 3 * time.Minute

// again makes calls anew as long as the driver says that its storage is unavailable, as kubelet and sidecars do. Beside other work LVM and Ceph now
// and then leave a command unanswered for too long.
type again struct {
	limit, pause time.Duration
	// repeated counts the calls that were made anew.
	repeated atomic.Int64
}

func (a *again) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	for deadline := time.Now().Add(a.limit); ; {
		err := invoke(ctx, method, req, reply, conn, opts...)
		if status.Code(err) != codes.Unavailable || ctx.Err() != nil || !time.Now().Before(deadline) {
			return err
		}
		a.repeated.Add(1)
		time.Sleep(a.pause)
	}
}

// TestAgain: only what is unavailable is asked again, and not for ever.
func TestAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []codes.Code
		limit   time.Duration
		want    codes.Code
		calls   int
	}{
		"it serves":               {[]codes.Code{codes.OK}, time.Minute, codes.OK, 1},
		"it serves in the end":    {[]codes.Code{codes.Unavailable, codes.Unavailable, codes.OK}, time.Minute, codes.OK, 3},
		"it refuses":              {[]codes.Code{codes.InvalidArgument}, time.Minute, codes.InvalidArgument, 1},
		"it refuses in the end":   {[]codes.Code{codes.Unavailable, codes.NotFound}, time.Minute, codes.NotFound, 2},
		"it never is available":   {[]codes.Code{codes.Unavailable}, 0, codes.Unavailable, 1},
		"it does not know how":    {[]codes.Code{codes.Unimplemented}, time.Minute, codes.Unimplemented, 1},
		"it fails in another way": {[]codes.Code{codes.Internal}, time.Minute, codes.Internal, 1},
	} {
		a, calls := &again{limit: tt.limit}, 0
		err := a.intercept(t.Context(), "", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			calls++
			return status.Error(tt.answers[calls-1], "")
		})
		if status.Code(err) != tt.want || calls != tt.calls || int(a.repeated.Load()) != tt.calls-1 {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
}
