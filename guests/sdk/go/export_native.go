//go:build !wasip1

package flyball

// Export makes the controller this plugin's controller. Call it in an init function of the main package, because the
// host does not run main. Natively it does nothing.
func Export(Controller) {}
