//go:build !wasip1

package cloud

// Export makes the provider this plugin's cloud. Call it in an init function of the main package, because the host does
// not run main. Natively it does nothing.
func Export(Provider) {}
