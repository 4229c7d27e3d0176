-- The steps about deliveries. once.lua is prepended to this file, and append.lua is concatenated
-- after it. It calls beginDeliveries before the steps of an operation, and
-- settleDeliveries once at the end of the batch.

local operation = 0 -- the current one, counted by append.lua

-- The steps, as in operation.go. A member is the delivery's 16 bytes and its type; the
-- front of a record is described in deliveries/codec.go. k is the index of the step's
-- first key, i and n those of its first and its last argument.
local waiting = 0   -- by how much the number of pending deliveries has changed
local due = {}      -- webhooks whose first due time may change: pending deliveries by "ACCOUNT WEBHOOK"
local sooner = {}   -- webhooks with new deliveries: when the first of these is due
local made          -- deliveries that the operation has made, by the key of their body
local bodies, uses = {}, {}    -- of deliveries that the batch has made, and how many have each
local bodiesAt, bodyReferences -- their keys
local item          -- deliveries of the operation so far
local left = ''

local function use(body, text, n)
  bodies[body] = text
  uses[body] = (uses[body] or 0) + n
end

local function leave()
  left = left .. ' ' .. operation .. '.' .. item
end

-- The webhooks of accounts by their key, as sets, as the operation has found them.
local accounts = {}

local function registered(key)
  local set = accounts[key]
  if not set then
    set = {}
    for _, webhook in ipairs(call('HKEYS', key)) do
      set[webhook] = true
    end
    accounts[key] = set
  end
  return set
end

local steps = {}

-- [k] pending    ACCOUNT WEBHOOK
steps[20] = function(k, i)
  due[args[i]] = keys[k]
end

-- New deliveries, unless the webhook was removed. Those that are stored stay as they are.
-- [k] webhooks [k+1] pending [k+2] records [k+3] all   WEBHOOK, ACCOUNT WEBHOOK, then MEMBER DUE CREATED RECORD of each
steps[21] = function(k, i, n)
  if not registered(keys[k])[args[i]] then
    return
  end
  local ids, all = {}, {}
  for d = i + 2, n, 4 do
    ids[#ids + 1] = cut(args[d], 1, 16)
    all[#all + 1], all[#all + 2] = args[d + 2], args[d]
  end
  local known = {}
  if call('ZADD', keys[k + 3], 'NX', unpack(all)) < #ids then
    known = call('HMGET', keys[k + 2], unpack(ids))
  end
  local pending, records = {}, {}
  local soonest
  made = made or {}
  for j = 1, #ids do
    if not known[j] then
      local d, p = i - 2 + 4 * j, #pending
      local at, record = args[d + 1], args[d + 3]
      pending[p + 1], pending[p + 2] = at, args[d]
      records[p + 1], records[p + 2] = ids[j], record
      if not soonest or tonumber(at) < tonumber(soonest) then
        soonest = at
      end
      local body = cut(record, 2, 21)
      made[body] = (made[body] or 0) + 1
    end
  end
  if not soonest then
    return
  end
  call('HSET', keys[k + 2], unpack(records))
  waiting = waiting + call('ZADD', keys[k + 1], unpack(pending))
  local webhook = args[i + 1]
  if not sooner[webhook] or tonumber(soonest) < tonumber(sooner[webhook]) then
    sooner[webhook] = soonest
  end
end

-- The body of deliveries that the operation may have made.
-- [k] bodies [k+1] references   KEY BODY
steps[22] = function(k, i)
  local key = args[i]
  local n = made and made[key]
  if not n then
    return
  end
  made[key] = nil
  bodiesAt, bodyReferences = keys[k], keys[k + 1]
  use(key, args[i + 1], n)
end

-- States after attempts, unless the delivery is no longer pending, is due at another time
-- than at the attempt (WAS, 6 bytes, "" for any), or stands earlier in the list. The record
-- keeps the key of its body. A delivery with the time of its creation (CREATED, "" for
-- others) is made if it is not stored yet.
-- [k] pending [k+1] records [k+2] succeeded [k+3] failed [k+4] all   ACCOUNT WEBHOOK,
-- then MEMBER WAS CREATED TO SCORE RECORD of each, TO 0 for pending, 2 for succeeded, 3 for failed
local function outcomes(args, k, i, n)
  local ids, new = {}, {}
  for d = i + 1, n, 6 do
    ids[#ids + 1] = cut(args[d], 1, 16)
    if args[d + 2] ~= '' then
      new[#new + 1], new[#new + 2] = args[d + 2], args[d]
    end
  end
  local old
  if #new == 0 or call('ZADD', keys[k + 4], 'NX', unpack(new)) < #ids then
    old = call('HMGET', keys[k + 1], unpack(ids))
  end
  local sets = {['0'] = {}, ['2'] = {}, ['3'] = {}}
  local ended, records, changed = {}, {}, {}
  local pending = false
  made = {}
  for j = 1, #ids do
    local d = i - 5 + 6 * j
    local was, to, record, is = args[d + 1], args[d + 3], args[d + 5], old and old[j]
    local isnew = not is and args[d + 2] ~= ''
    if not changed[ids[j]] and (isnew or is and byte(is, 40) % 4 == 0 and (was == '' or was == cut(is, 34, 39))) then
      changed[ids[j]] = true
      local set, r = sets[to], #records
      set[#set + 1], set[#set + 2] = args[d + 4], args[d]
      pending = pending or not isnew or to == '0'
      if isnew then
        local body = cut(record, 2, 21)
        made[body] = (made[body] or 0) + 1
      else
        record = cut(record, 1, 1) .. cut(is, 2, 21) .. cut(record, 22)
        if to ~= '0' then
          ended[#ended + 1] = args[d]
        end
      end
      records[r + 1], records[r + 2] = ids[j], record
    else
      leave()
    end
    item = item + 1
  end
  if #records > 0 then
    call('HSET', keys[k + 1], unpack(records))
  end
  if #ended > 0 then
    waiting = waiting - call('ZREM', keys[k], unpack(ended))
  end
  for to, set in pairs(sets) do
    if #set > 0 then
      local new = call('ZADD', keys[k + to], unpack(set))
      if to == '0' then
        waiting = waiting + new -- those that this has made, or that were dropped
      end
    end
  end
  if pending then
    due[args[i]] = keys[k]
  end
end
steps[23] = function(k, i, n) outcomes(args, k, i, n) end

-- Deliveries that have succeeded at the first attempt: what step 23 does with them, and step 22 with
-- their bodies. Nearly all outcomes come to this step, and nearly none of them is stored yet, so
-- the arguments are in the order in which commands take them.
-- [k] pending [k+1] records [k+2] succeeded [k+3] failed [k+4] all [k+5] bodies [k+6] references
-- ACCOUNT WEBHOOK, the WAS of all (6 bytes each, 0 for any), then CREATED MEMBER of each, then ID RECORD of
-- each, then BODY of each
steps[26] = function(k, i, n)
  local count = (n - i - 1) / 5
  local members, records, texts = i + 2, i + 2 + 2 * count, i + 2 + 4 * count
  bodiesAt, bodyReferences = keys[k + 5], keys[k + 6]
  local some = call('ZADD', keys[k + 4], 'NX', unpack(args, members, records - 1)) < count
  if some then -- are stored
    local list = {args[i]}
    for d = 0, count - 1 do
      local created, was = args[members + 2 * d], cut(args[i + 1], 6 * d + 1, 6 * d + 6)
      if was == '\0\0\0\0\0\0' then
        was = ''
      end
      local l = #list
      list[l + 1], list[l + 2], list[l + 3] = args[members + 2 * d + 1], was, created
      list[l + 4], list[l + 5], list[l + 6] = '2', created, args[records + 2 * d + 1]
    end
    outcomes(list, k, 1, #list)
  else
    call('HSET', keys[k + 1], unpack(args, records, texts - 1))
    call('ZADD', keys[k + 2], unpack(args, members, records - 1))
    item = item + count
  end
  for d = 0, count - 1 do
    local body = cut(args[records + 2 * d + 1], 2, 21)
    local new = 1
    if some then
      new, made[body] = made[body], nil
    end
    if new then
      use(body, args[texts + d], new)
    end
  end
end

-- Manual changes from one set to another: to pending, due at DUE, or to failed. PATCH
-- replaces the bytes of the records from 28 on.
-- [k] pending [k+1] records [k+2] succeeded [k+3] failed   ACCOUNT WEBHOOK, FROM TO DUE PATCH, then each MEMBER
steps[24] = function(k, i, n)
  local from, to, at, patch = keys[k + args[i + 1]], keys[k + args[i + 2]], args[i + 3], args[i + 4]
  local change = args[i + 2] == '0' and 1 or -1
  for d = i + 5, n do
    local member = args[d]
    local id = cut(member, 1, 16)
    local record = call('ZREM', from, member) == 1 and call('HGET', keys[k + 1], id)
    if record then
      local score = at
      if change < 0 then
        local a, b, c, e, f, g = byte(record, 22, 27)
        score = ((((a * 256 + b) * 256 + c) * 256 + e) * 256 + f) * 256 + g
      end
      call('ZADD', to, score, member)
      call('HSET', keys[k + 1], id, cut(record, 1, 27) .. patch .. cut(record, 28 + #patch))
      waiting = waiting + change
    else
      leave()
    end
    item = item + 1
  end
  due[args[i]] = keys[k]
end

-- The webhook is removed: none of its deliveries is due.
-- [k] any   ACCOUNT WEBHOOK
steps[25] = function(_, i)
  due[args[i]], sooner[args[i]] = nil, nil
  call('ZREM', keys[7], args[i])
end

local function beginDeliveries()
  made, item, accounts = nil, 0, {}
end

-- Lua can unpack some thousands of values.
local function inParts(list, f)
  for i = 1, #list, 2000 do
    f(unpack(list, i, math.min(i + 1999, #list)))
  end
end

-- Stores the bodies, the number of pending deliveries, and when webhooks are due.
local function settleDeliveries()
  local fields = {}
  for body in pairs(uses) do
    fields[#fields + 1] = body
  end
  inParts(fields, function(...)
    local others = call('HMGET', bodyReferences, ...)
    local references, single = {}, {}
    for i, body in ipairs{...} do
      if others[i] then
        references[#references + 1], references[#references + 2] = body, others[i] + uses[body]
      else -- it is stored for one delivery, or not at all
        single[#single + 1] = body
      end
    end
    inParts(single, function(...)
      local known, new = call('HMGET', bodiesAt, ...), {}
      for i, body in ipairs{...} do
        local n = uses[body]
        if not known[i] then
          new[#new + 1], new[#new + 2] = body, bodies[body]
          n = n - 1
        end
        if n > 0 then
          references[#references + 1], references[#references + 2] = body, n
        end
      end
      inParts(new, function(...) call('HSET', bodiesAt, ...) end)
    end)
    inParts(references, function(...) call('HSET', bodyReferences, ...) end)
  end)

  if waiting ~= 0 then
    call('HINCRBY', keys[8], 'pending', waiting)
  end
  local next, none, earlier = {}, {}, {}
  for webhook, pending in pairs(due) do
    local earliest = call('ZRANGE', pending, 0, 0, 'WITHSCORES')
    if earliest[2] then
      next[#next + 1], next[#next + 2] = earliest[2], webhook
    else
      none[#none + 1] = webhook
    end
  end
  -- New deliveries can only make a first due time earlier.
  for webhook, at in pairs(sooner) do
    if not due[webhook] then
      earlier[#earlier + 1], earlier[#earlier + 2] = at, webhook
    end
  end
  inParts(next, function(...) call('ZADD', keys[7], ...) end)
  inParts(none, function(...) call('ZREM', keys[7], ...) end)
  inParts(earlier, function(...) call('ZADD', keys[7], 'LT', ...) end)
end
