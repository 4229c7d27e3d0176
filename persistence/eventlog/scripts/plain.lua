-- Executes a batch whose operations only append events and new signals, with at most the guard that a
-- field has a value, with the same effects as append.lua but without the tables and functions that
-- append.lua makes on each call. once.lua is prepended to this file.
--
-- KEYS[1] batch key of the writer     KEYS[4] open signals
-- KEYS[2] event log                   KEYS[5..] the key of each guard
-- KEYS[3] signal log
-- ARGV[1] number of the batch
-- ARGV[2] program: bytes for each step, the first one 1 or 4
--   1 appends an event: header, payload
--   2 appends to the signal log under the id of the last event: header, metadata
--   3 stores an open signal with that id twice in front: field, value
--   4 guards the steps up to the next event of another operation: field, value. Three more bytes are
--     the number of the operation, from 0, and how many steps it has
-- ARGV[3..] two values for each step
--
-- Returns "FIRST - OPERATION:0 ..." as append.lua does.
local events, program = keys[2], args[2]
local first, refused, nextid = nil, '', '*'
local id
local a, i, size, guard = 3, 1, #program, 5
while i <= size do
  local code = byte(program, i)
  i = i + 1
  if code == 1 then
    id = call('XADD', events, nextid, 'h', args[a], 'd', args[a + 1])
    if not first then
      first = id
      nextid = match(id, '^%d+') .. '-*'
    end
  elseif code == 2 then
    call('XADD', keys[3], id, 'h', args[a], 'm', args[a + 1])
  elseif code == 3 then
    call('HSET', keys[4], args[a], id .. ' ' .. id .. ' ' .. args[a + 1])
  else
    if call('HGET', keys[guard], args[a]) ~= args[a + 1] then
      local n1, n2, steps = byte(program, i, i + 2)
      refused = refused .. ' ' .. n1 * 256 + n2 .. ':0'
      i, a = i + steps, a + 2 * steps
    end
    i, guard = i + 3, guard + 1
  end
  a = a + 2
end
local result = (first or '-') .. ' -' .. refused
call('SET', keys[1], args[1] .. ' ' .. result, 'EX', 600)
return result
