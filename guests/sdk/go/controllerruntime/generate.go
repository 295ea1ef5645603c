package controllerruntime

//go:generate go run ./internal/upstream
