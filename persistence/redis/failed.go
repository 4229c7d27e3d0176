package redisclient

import "fmt"

// Failed returns an error of KindUnavailable for what the format names and Redis did not
// do, or whose answer was lost. Without err it returns nil.
func Failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return Unavailable(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
}
