package redisclient

import "fmt"

// Failed returns an error of KindUnavailable for the operation that the format names, which
// failed or whose reply was lost. It returns nil if err is nil.
func Failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return Unavailable(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
}
