package setup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/reconcile/driver"
)

// container is the name of the controller's container in its pod.
const container = "controller"

// images returns the images of CSI drivers. They run the controller's own image: that which was given, or that of its pod.
func images(ctx context.Context, c client.Reader, cfg Config) (driver.Images, error) {
	own := cfg.Image
	if own == "" && cfg.PodName != "" {
		pod := &corev1.Pod{}
		if err := c.Get(ctx, types.NamespacedName{Namespace: cfg.Namespace, Name: cfg.PodName}, pod); err != nil {
			return nil, fmt.Errorf("find own image: get pod %s: %w", cfg.PodName, err)
		}
		for _, c := range pod.Spec.Containers {
			if c.Name == container {
				own = c.Image
			}
		}
	}
	if own == "" {
		own = defaultImage
	}
	return driver.NewImages(own, cfg.SidecarRegistry, cfg.SidecarImages)
}
