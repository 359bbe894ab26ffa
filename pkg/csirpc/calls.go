// Package csirpc is what every CSI service of Quarry shares, whichever process serves it and whatever the storage: the socket, what
// each call passes through, codes, the lock per volume, paging, and the reading of volume capabilities. It knows no driver.
package csirpc

import (
	"context"
	"fmt"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Calls is what every call of a service passes through: log, metrics, recovery from a panic, a deadline, and codes.
type Calls struct {
	// Process that serves, for messages: "agent" or "controller".
	Process string
	Log     logr.Logger
	// Metrics count the calls; nil counts none.
	Metrics *Metrics
	// Code maps the errors of the service to codes; the function Code of this package when nil.
	Code func(error) codes.Code
	// Longest bounds a call, even if the caller set a later deadline or none; 0 leaves it to the caller.
	Longest time.Duration
}

// Handle is the interceptor. The log shows requests without their secrets.
func (c *Calls) Handle(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	method := path.Base(info.FullMethod)
	log := c.Log.WithValues("method", method)
	log.V(4).Info("Handling call", "request", protosanitizer.StripSecrets(req))
	defer func() {
		if value := recover(); value != nil {
			log.Error(fmt.Errorf("panic: %v\n%s", value, debug.Stack()), "Recovered from a panic")
			resp, err = nil, status.Error(codes.Internal, "panic in the "+c.Process)
		}
		c.ended(log, method, err, time.Since(start).Seconds())
	}()
	if c.Longest > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Longest)
		defer cancel()
	}
	resp, err = handler(ctx, req)
	if err != nil {
		return nil, Status(err, c.Code)
	}
	return resp, nil
}

// ended logs and counts a call.
func (c *Calls) ended(log logr.Logger, method string, err error, seconds float64) {
	code := status.Code(err)
	c.Metrics.handled(method, code, seconds)
	switch code {
	case codes.OK:
		log.V(level(method)).Info("Handled call", "seconds", seconds)
	case codes.Internal, codes.Unknown:
		log.Error(err, "Failed call", "seconds", seconds)
	default:
		log.Info("Refused call", "code", code.String(), "reason", status.Convert(err).Message())
	}
}

// level of the log for a call that succeeded. Calls that only read come all the time.
func level(method string) int {
	for _, prefix := range []string{"Get", "List", "Probe", "Validate", "NodeGet", "ControllerGet"} {
		if strings.HasPrefix(method, prefix) {
			return 4
		}
	}
	return 1
}
