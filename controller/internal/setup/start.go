package setup

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Start begins the log, loads the cluster's credentials and runs until a signal comes.
func Start(verbosity int, run func(context.Context, *rest.Config) error) error {
	log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity)))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	rc, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("load cluster credentials: %w", err)
	}
	return run(ctrl.SetupSignalHandler(), rc)
}
