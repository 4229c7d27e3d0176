// Package barfile reads bars of prices from the files that exchanges, brokers, chart programs
// and libraries write. It recognizes a file by its contents: compression, encoding, delimiter,
// decimal sign, header, the form and unit of times, the columns and the order of rows. The
// name of the maker is a guess that nothing depends on.
//
// Read refuses what it cannot decide, with both readings and the flag that decides. Each row
// that does not become a bar of its own is counted in the Report.
//
// Values are read from an io.Reader; only ReadFile opens a file. There is no clock.
package barfile
