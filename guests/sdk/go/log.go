package flyball

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// LevelTrace is the level of every step, below [slog.LevelDebug].
const LevelTrace = slog.Level(-8)

// logHandler writes records to the host's log.
type logHandler struct {
	world  World
	prefix string
	fields []LogField
}

func (handler logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return handler.world.LogEnabled(level)
}

func (handler logHandler) Handle(_ context.Context, record slog.Record) error {
	fields := slices.Clone(handler.fields)
	record.Attrs(func(attribute slog.Attr) bool {
		fields = appendField(fields, handler.prefix, attribute)
		return true
	})
	handler.world.Log(record.Level, record.Message, fields)
	return nil
}

func (handler logHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	handler.fields = slices.Clone(handler.fields)
	for _, attribute := range attributes {
		handler.fields = appendField(handler.fields, handler.prefix, attribute)
	}
	return handler
}

func (handler logHandler) WithGroup(name string) slog.Handler {
	handler.prefix += name + "."
	return handler
}

func appendField(fields []LogField, prefix string, attribute slog.Attr) []LogField {
	value := attribute.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if attribute.Key != "" {
			prefix += attribute.Key + "."
		}
		for _, inner := range value.Group() {
			fields = appendField(fields, prefix, inner)
		}
		return fields
	}
	text := value.String()
	if err, isError := value.Any().(error); isError {
		text = err.Error()
	} else if stringer, isStringer := value.Any().(fmt.Stringer); isStringer {
		text = stringer.String()
	}
	return append(fields, LogField{prefix + attribute.Key, strings.ToValidUTF8(text, "\uFFFD")})
}
