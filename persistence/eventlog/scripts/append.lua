-- Executes a batch of operations, each atomically and once. once.lua and deliveries.lua are prepended
-- to this file and define the shared locals: call, keys, args, the table steps, operation (the number
-- of the current one) and left (the deliveries that were left out).
--
-- KEYS[1] batch key of the writer     KEYS[4] open signals
-- KEYS[2] event log                   KEYS[5] runs due
-- KEYS[3] signal log                  KEYS[6] epoch
-- KEYS[7] webhooks due                KEYS[8] counts of webhooks
-- KEYS[9..] keys of single operations
-- ARGV[1] number of the batch, increasing from batch to batch of a writer
-- ARGV[2] program, see operation.go: all numbers are big-endian
-- ARGV[3..] values, used up from left to right by the program
--
-- Returns "FIRST STAMP", then " OPERATION:GUARD" for each refused operation, with
-- "=SEQUENCE" if the stored sequence was not the expected one, then
-- " OPERATION.DELIVERY" for each delivery that an operation has left out.
-- FIRST is the id of the first event ("-" without one); the others follow by
-- ones. STAMP is the id for operations before the first event ("-" if none was
-- needed).
local events, signals = keys[2], keys[3]

-- The commands of steps other than 1 (event), 2 (record) and 17 (exit), as in operation.go.
local commands = {[3] = 'HSET', [4] = 'HDEL', [5] = 'SET', [7] = 'ZADD', [8] = 'ZREM', [10] = 'XACK',
  [11] = 'XDEL', [12] = 'EXPIRE', [13] = 'SADD', [15] = 'HINCRBY', [16] = 'PEXPIREAT', [18] = 'XADD'}

local program = args[2]
local size = #program
local pc, a = 1, 3
local first, stamp
local nextid = '*' -- what XADD is given: "*", then "MS-*"
local id           -- of the last event, or the stamp
local refused = ''

-- The epoch, which no operation changes.
local epoch

-- The number that begins at byte i of s, as Go's binary.Uvarint reads it.
local function uvarint(s, i)
  local n, unit = 0, 1
  repeat
    local b = byte(s, i) or 0
    n, unit, i = n + b % 128 * unit, unit * 128, i + 1
  until b < 128
  return string.format('%.0f', n)
end

-- How many updates of a signal are kept, signal.MaxUpdates, and the length of one.
local maxUpdates, updateBytes = 200, 15

-- The index of the flags of the open signal value, see AppendOpen, and the flags.
local function flagsOf(value)
  local _, i = string.find(value, '^[^ ]* [^ ]* ')
  if not i then
    return 0, 0
  end
  i = i + 10 -- behind the version and the confidence
  while (byte(value, i) or 0) >= 128 do -- the sequence
    i = i + 1
  end
  i = i + 17 -- behind the excursions: the account, 16 bytes or a short text
  i = i + (byte(value, i) == 1 and 17 or 2 + (byte(value, i + 1) or 0))
  return i, byte(value, i) or 0
end

-- The updates of the open signal value, without their number, and their number.
local function updatesOf(value)
  local _, flags = flagsOf(value)
  if flags % 32 < 16 then -- the flag signalUpdates
    return '', 0
  end
  local n = byte(value, -1)
  return cut(value, -1 - updateBytes * n, -2), n
end

-- How many bytes the updates take at the end of the open signal value, with their number.
local function tailOf(value)
  local _, n = updatesOf(value)
  return n > 0 and updateBytes * n + 1 or 0
end

-- The time at which the agent of the open signal value has ended it, or ''; see ExitBytes.
local function exitOf(value)
  local _, flags = flagsOf(value)
  if flags % 64 < 32 then -- the flag signalExit
    return ''
  end
  local tail = tailOf(value)
  return cut(value, -tail - 6, -tail - 1)
end

-- The open signal value, which has no such time, with that of an id.
local function withExit(value, id)
  local i, flags = flagsOf(value)
  local at, ms, tail = '', tonumber(match(id, '^%d+')), tailOf(value)
  for _ = 1, 6 do
    at, ms = string.char(ms % 256) .. at, math.floor(ms / 256)
  end
  return cut(value, 1, i - 1) .. string.char(flags + 32) .. cut(value, i + 1, -tail - 1) .. at ..
    (tail > 0 and cut(value, -tail) or '')
end

-- The updates without every second one, from the second one on.
local function thinned(updates, n)
  local some = {}
  for i = 0, n - 1, 2 do
    some[#some + 1] = cut(updates, updateBytes * i + 1, updateBytes * (i + 1))
  end
  return table.concat(some), #some
end

while pc <= size do
  local guards, l1, l2, l3, v1, v2, v3, b1, b2 = byte(program, pc, pc + 8)
  pc = pc + 9
  local stop = pc + l1 * 65536 + l2 * 256 + l3
  local nexta = a + v1 * 65536 + v2 * 256 + v3
  local base = b1 * 256 + b2 -- keys from 16 on are counted from here
  local found -- the value that the first guard of kind 1 found
  for g = 1, guards do
    local kind, k1, k2 = byte(program, pc, pc + 2)
    pc = pc + 3
    local k = k1 * 256 + k2
    local key = k < 16 and keys[k] or keys[base + k - 16]
    local ok
    local is = '' -- what is stored instead
    if kind == 1 then -- field exists
      local value = call('HGET', key, args[a])
      a = a + 1
      ok = value
      found = found or value
    elseif kind == 2 then -- field has the value
      ok = call('HGET', key, args[a]) == args[a + 1]
      a = a + 2
    elseif kind == 3 and k == 6 then -- the epoch has the value: read once for a batch
      epoch = epoch or call('GET', key)
      ok = epoch == args[a]
      a = a + 1
    elseif kind == 3 then -- key has the value
      ok = call('GET', key) == args[a]
      a = a + 1
    elseif kind == 10 then -- key is missing or has the value
      local value = call('GET', key)
      ok = not value or value == args[a]
      a = a + 1
    elseif kind == 7 then -- sorted set has the member
      ok = call('ZSCORE', key, args[a])
      a = a + 1
    elseif kind == 8 then -- hash is shorter
      ok = call('HLEN', key) < tonumber(args[a])
      a = a + 1
    elseif kind == 9 then -- the open signal that was found has the sequence, see appendOpen
      local _, stamps = string.find(found, '^[^ ]* [^ ]* ')
      ok = stamps and cut(found, stamps + 10, stamps + 9 + #args[a]) == args[a]
      if stamps and not ok then
        is = '=' .. uvarint(found, stamps + 10)
      end
      a = a + 1
    elseif kind == 11 then -- the open signal that was found has the exit
      ok = exitOf(found) == args[a]
      a = a + 1
    end
    if not ok then
      refused = refused .. ' ' .. operation .. ':' .. (g - 1) .. is
      pc = stop
      break
    end
  end
  beginDeliveries()
  while pc < stop do
    local code, k1, k2, mode, at, n1, n2 = byte(program, pc, pc + 6)
    pc = pc + 7
    local n = n1 * 256 + n2
    if mode > 0 then -- put the time in front of a value
      if not id then
        local t = call('TIME')
        id = t[1] .. string.format('%03d', math.floor(t[2] / 1000)) .. '-0'
        stamp = id
      end
      local i = a + at
      local kept = found and match(found, '^[^ ]*')
      if mode == 1 then
        args[i] = id .. ' ' .. args[i]
      elseif mode == 2 then
        args[i] = kept .. ' ' .. id .. ' ' .. args[i]
      elseif mode == 4 then -- the value ends with its own update and the number 1
        local updates, have = updatesOf(found)
        if have >= maxUpdates then
          updates, have = thinned(updates, have)
        end
        args[i] = kept .. ' ' .. id .. ' ' .. cut(args[i], 1, -2 - updateBytes) .. updates ..
          cut(args[i], -1 - updateBytes, -2) .. string.char(have + 1)
      elseif mode == 5 then
        local updates, have = updatesOf(found)
        args[i] = kept .. ' ' .. id .. ' ' .. args[i] .. updates .. (have > 0 and string.char(have) or '')
      else
        args[i] = id .. ' ' .. id .. ' ' .. args[i]
      end
    end
    if code == 1 then
      id = call('XADD', events, nextid, 'h', args[a], 'd', args[a + 1])
      if not first then
        first = id
        nextid = match(id, '^%d+') .. '-*'
      end
    elseif code == 2 then
      call('XADD', signals, id, 'h', args[a], 'm', args[a + 1])
    elseif code == 17 then
      local value = call('HGET', keys[4], args[a])
      if value and exitOf(value) == '' then
        call('HSET', keys[4], args[a], withExit(value, id))
      end
    elseif code >= 20 then
      steps[code](base + k1 * 256 + k2 - 16, a, a + n - 1)
    else
      local k = k1 * 256 + k2
      call(commands[code], k < 16 and keys[k] or keys[base + k - 16], unpack(args, a, a + n - 1))
    end
    a = a + n
  end
  a = nexta
  operation = operation + 1
end

settleDeliveries()

local result = (first or '-') .. ' ' .. (stamp or '-') .. refused .. left
call('SET', keys[1], args[1] .. ' ' .. result, 'EX', 600)
return result
