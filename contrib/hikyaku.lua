-- Wireshark dissector for hikyaku, wire format version 2. The layout is in the documentation of `hikyaku::wire`.
--
-- To use it once:    wireshark -X lua_script:contrib/hikyaku.lua capture.pcapng
-- To install it:     copy it to the folder that Help > About > Folders calls "Personal Lua Plugins".
--
-- Packets are found by their UDP port (preference hikyaku.port), and on other ports by their looks: a datagram that
-- is one whole packet of this version. Wireshark 4.0 or later (Lua 5.2 or later).

local hikyaku = Proto("hikyaku", "Hikyaku Reliable Datagrams")

local VERSION = 2
local BASE_LEN = 40
local SEAL_LEN = 24
local MAX_SACK_WORDS = 16
local ANY_PROCESSOR = 0xffffffff
-- How many runs of a selective acknowledgement, and lengths of records, the info column has room for.
local SHOWN = 8

hikyaku.prefs.port = Pref.uint("UDP port", 4810, "Port on which every datagram is taken for a packet; 0 for none")
hikyaku.prefs.verify = Pref.bool("Verify checksums", true, "Compute the CRC-32C of packets that have one")

-- Lua 5.2 has a library for this, later ones have operators, which 5.2 cannot even read.
local band, bxor, rshift
if bit32 then
    band, bxor, rshift = bit32.band, bit32.bxor, bit32.rshift
else
    band, bxor, rshift = load([[
        local function int(x) return math.tointeger(x) end
        return function(a, b) return int(a) & int(b) end,
            function(a, b) return int(a) ~ int(b) end,
            function(a, n) return int(a) >> n end
    ]])()
end

local KINDS = { [0] = "data", "ack", "reset", "goodbye", "probe", "probe-ack", "return", "challenge", "settle", "settled" }
local DATA, PROBE, RESET, RETURN = 0, 4, 2, 6

-- Name, mask and, of those that announce an extension, how long that is (selective acknowledgements vary).
local FLAGS = {
    { "match", 0x0001, "Match bits", 8 },
    { "immediate", 0x0002, "Immediate data", 8 },
    { "fragment", 0x0004, "Fragment", 8 },
    { "placement", 0x0008, "Placement", 16 },
    { "timestamp", 0x0010, "Timestamp", 8 },
    { "credit", 0x0020, "Credit", 8 },
    { "checksum", 0x0040, "Checksum", 8 },
    { "open", 0x0080, "Opening", 40 },
    { "sack", 0x0100, "Selective acknowledgement" },
    { "seal", 0x0200, "Seal" },
    { "bundle", 0x0400, "Bundle" },
    { "ack_request", 0x0800, "Acknowledge at once" },
    { "nack", 0x1000, "Negative acknowledgement" },
    { "key_phase", 0x2000, "Key phase" },
}
local ALL_FLAGS = 0x3fff
local OF_DATA = 0x040f
local OF_RETURN = 0x0002
local MASK = {}
for _, flag in ipairs(FLAGS) do
    MASK[flag[1]] = flag[2]
end

-- Fields, by their names behind "hikyaku.".

local field, fields = {}, {}
local function define(kind, name, ...)
    field[name] = ProtoField[kind]("hikyaku." .. name, ...)
    table.insert(fields, field[name])
end

define("string", "summary", "Summary")
define("uint8", "version", "Version", base.DEC, nil, 0xf0)
define("uint8", "kind", "Kind", base.DEC, KINDS, 0x0f)
define("uint8", "channel", "Channel")
define("uint16", "flags", "Flags", base.HEX)
for _, flag in ipairs(FLAGS) do
    define("bool", "flags." .. flag[1], flag[3], 16, nil, flag[2])
end
define("uint32", "source", "Source processor")
define("uint32", "destination", "Destination processor")
define("uint32", "session.index", "Session: index")
define("uint64", "session.secret", "Session: secret", base.HEX)
define("uint32", "sequence", "Sequence number")
define("uint32", "acknowledgement", "Acknowledgement")
define("uint16", "payload_len", "Payload length")
define("uint8", "rail", "Rail")
define("uint32", "message", "Message number")
define("uint64", "match", "Match bits", base.HEX)
define("uint64", "immediate", "Immediate data", base.HEX)
define("none", "fragment", "Fragment")
define("uint32", "fragment.offset", "Offset in the message")
define("uint32", "fragment.total", "Length of the message")
define("none", "placement", "Placement")
define("uint32", "placement.region", "Memory region")
define("uint64", "placement.offset", "Offset in the region", base.DEC)
define("none", "timestamp", "Timestamp")
define("uint32", "timestamp.value", "Value, ns")
define("uint32", "timestamp.echo", "Echo, ns")
define("none", "credit", "Credit")
define("uint32", "credit.limit", "Limit")
define("uint32", "credit.window", "Window")
define("uint32", "checksum", "Checksum", base.HEX)
define("uint8", "checksum.status", "Checksum status", base.DEC, { [0] = "wrong", "right", "not verified" })
define("none", "open", "Opening")
define("uint64", "open.epoch", "Epoch", base.HEX)
define("uint32", "open.token.index", "Token: index")
define("uint64", "open.token.secret", "Token: secret", base.HEX)
define("uint32", "open.features", "Features", base.HEX)
define("bool", "open.features.checksum", "Checksums in every packet", 32, nil, 0x00000001)
define("bool", "open.features.settle", "Flows can be settled", 32, nil, 0x00000002)
define("bool", "open.features.rails", "Several rails", 32, nil, 0x00000004)
define("bool", "open.features.sealed", "Every packet is sealed", 32, nil, 0x00010000)
define("uint32", "open.features.required", "Required", base.HEX, nil, 0xffff0000)
define("uint32", "open.limit", "Credit limit")
define("uint32", "open.window", "Credit window")
define("uint32", "open.ack_delay", "Acknowledgement delay, ns")
define("uint16", "open.max_datagram", "Largest datagram")
define("uint16", "open.port", "UDP port")
define("none", "sack", "Selective acknowledgement")
define("uint8", "sack.words", "Words")
define("uint64", "sack.word", "Word", base.HEX)
define("string", "sack.run", "Arrived")
define("none", "seal", "Seal")
define("uint64", "seal.number", "Transmission number", base.DEC)
define("bytes", "seal.tag", "Tag")
define("none", "record", "Record")
define("uint32", "record.message", "Message number")
define("uint16", "record.len", "Length")
define("uint16", "record.flags", "Flags", base.HEX)
define("uint64", "record.match", "Match bits", base.HEX)
define("bytes", "record.data", "Data")
define("bytes", "payload", "Payload")
define("bytes", "reserved", "Reserved")
hikyaku.fields = fields

local malformed = ProtoExpert.new("hikyaku.malformed", "Malformed packet", expert.group.MALFORMED, expert.severity.ERROR)
local bad_checksum = ProtoExpert.new("hikyaku.checksum.bad", "Checksum is wrong", expert.group.CHECKSUM, expert.severity.ERROR)
local reset = ProtoExpert.new("hikyaku.reset", "Session is not known", expert.group.SEQUENCE, expert.severity.WARN)
local refused = ProtoExpert.new("hikyaku.refused", "Opening is refused", expert.group.SEQUENCE, expert.severity.WARN)
local no_room = ProtoExpert.new("hikyaku.no_room", "No room for another peer", expert.group.SEQUENCE, expert.severity.WARN)
local returned = ProtoExpert.new("hikyaku.returned", "No such processor", expert.group.SEQUENCE, expert.severity.WARN)
local nack = ProtoExpert.new("hikyaku.nack", "Packets are missing", expert.group.SEQUENCE, expert.severity.NOTE)
hikyaku.experts = { malformed, bad_checksum, reset, refused, no_room, returned, nack }
-- What a reset says, by its message number.
local RESETS = { [0] = reset, refused, no_room }

-- Numbers are floating point in some versions of Lua; this prints them without a point in all.
local function decimal(number)
    return string.format("%.0f", number)
end

local function hex(range)
    if range:len() == 8 then
        return "0x" .. range:uint64():tohex():lower()
    end
    return string.format("0x%08x", range:uint())
end

local CRC = {}
for i = 0, 255 do
    local crc = i
    for _ = 1, 8 do
        crc = bxor(rshift(crc, 1), band(crc, 1) * 0x82f63b78)
    end
    CRC[i] = crc
end

-- CRC-32C of all bytes, with zero for the four at offset `at`.
local function crc32c(tvb, at)
    local bytes = tvb:range(0, tvb:len()):bytes()
    local crc = 0xffffffff
    for i = 0, bytes:len() - 1 do
        local byte = (i >= at and i < at + 4) and 0 or bytes:get_index(i)
        crc = bxor(CRC[band(bxor(crc, byte), 0xff)], rshift(crc, 8))
    end
    return bxor(crc, 0xffffffff)
end

local function all_zero(range)
    local bytes = range:bytes()
    for i = 0, bytes:len() - 1 do
        if bytes:get_index(i) ~= 0 then
            return false
        end
    end
    return true
end

local function truncated(need, have)
    return string.format("packet truncated: %d bytes needed, %d there", need, have)
end

-- Splits a payload into records; gives nil if they do not fill it.
local function split_records(tvb, at, message)
    local records, finish = {}, tvb:len()
    while at < finish do
        local record = { at = at, message = (message + #records) % 0x100000000, data_at = at + 4 }
        if finish - at < 4 then
            return nil
        end
        record.len = tvb(at, 2):uint()
        local flags = tvb(at + 2, 2):uint()
        if flags == 1 then
            record.match_at = at + 4
            record.data_at = at + 12
        elseif flags ~= 0 then
            return nil
        end
        at = record.data_at + record.len
        if at > finish then
            return nil
        end
        table.insert(records, record)
    end
    return #records > 0 and records or nil
end

-- Runs of set bits of a selective acknowledgement, printed as the sequence numbers that have arrived.
local function sack_runs(tvb, packet)
    local runs, first = {}, nil
    local count = 64 * packet.sack_words
    local function number(bit)
        return decimal((packet.acknowledgement + 1 + bit) % 0x100000000)
    end
    for bit = 0, count do
        local set = false
        if bit < count then
            local word, i = math.floor(bit / 64), bit % 64
            local byte = tvb(packet.sack_at + 8 + 8 * word + 7 - math.floor(i / 8), 1):uint()
            set = band(rshift(byte, i % 8), 1) == 1
        end
        if set and not first then
            first = bit
        elseif not set and first then
            local last = bit - 1
            table.insert(runs, first == last and number(first) or number(first) .. "-" .. number(last))
            first = nil
        end
    end
    return runs
end

-- Reads and checks a datagram in the order in which `Packet::new_checked` does. Gives what was found and, if it is
-- no packet, why. `packet.base` is set when the base header can be shown at all, `packet.cut` when the capture has not
-- kept the whole header, so that nothing is known about the rest.
local function read(tvb)
    local packet = { at = {} }
    local have, captured = tvb:reported_len(), tvb:len()
    if have < BASE_LEN then
        return packet, truncated(BASE_LEN, have)
    end
    if captured < BASE_LEN then
        packet.cut = true
        return packet, nil
    end
    local first = tvb(0, 1):uint()
    packet.version, packet.kind = rshift(first, 4), band(first, 0xf)
    if packet.version ~= VERSION then
        return packet, string.format("wire format version %d, this side speaks %d", packet.version, VERSION)
    end
    packet.base = true
    packet.channel = tvb(1, 1):uint()
    packet.flags = tvb(2, 2):uint()
    packet.acknowledgement = tvb(28, 4):uint()
    packet.payload_len = tvb(32, 2):uint()
    packet.message = tvb(36, 4):uint()
    if not KINDS[packet.kind] then
        return packet, string.format("unknown packet kind %d", packet.kind)
    end
    local unknown = packet.flags - band(packet.flags, ALL_FLAGS)
    if unknown ~= 0 then
        return packet, string.format("unknown flags 0x%04x", unknown)
    end

    local has = {}
    local at = BASE_LEN
    for _, flag in ipairs(FLAGS) do
        has[flag[1]] = band(packet.flags, flag[2]) ~= 0
        if has[flag[1]] and flag[4] then
            packet.at[flag[1]] = at
            at = at + flag[4]
        end
    end
    packet.has = has
    if have < at then
        packet.at = {}
        return packet, truncated(at, have)
    end
    if captured < at then
        packet.at, packet.cut = {}, true
        return packet, nil
    end
    if tvb(35, 1):uint() ~= 0 then
        packet.at = {}
        return packet, "reserved bytes are not zero"
    end
    if has.sack then
        if have < at + 8 then
            return packet, truncated(at + 8, have)
        end
        if captured < at + 8 then
            packet.cut = true
            return packet, nil
        end
        local words = tvb(at, 1):uint()
        if words == 0 or words > MAX_SACK_WORDS then
            return packet, string.format("acknowledgement bitmap of %d words (1 to %d)", words, MAX_SACK_WORDS)
        end
        if not all_zero(tvb(at + 1, 7)) then
            return packet, "reserved bytes are not zero"
        end
        if captured >= at + 8 + 8 * words then
            packet.sack_at, packet.sack_words = at, words
        elseif captured < have then
            packet.cut = true
            return packet, nil
        end
        at = at + 8 + 8 * words
    end
    if has.seal then
        if captured >= at + SEAL_LEN then
            packet.seal_at = at
        elseif captured < have then
            packet.cut = true
            return packet, nil
        end
        at = at + SEAL_LEN
    end
    local need = at + packet.payload_len
    if have < need then
        return packet, truncated(need, have)
    end
    if have > need then
        return packet, string.format("%d bytes after the payload", have - need)
    end
    packet.payload_at = at

    if packet.kind ~= DATA then
        local foreign = packet.kind == RETURN and OF_DATA - OF_RETURN or OF_DATA
        if band(packet.flags, foreign) ~= 0 or (packet.payload_len > 0 and packet.kind ~= PROBE) then
            return packet, "payload or extension that this kind of packet cannot carry"
        end
    else
        if has.fragment then
            local offset, total = tvb(packet.at.fragment, 4):uint(), tvb(packet.at.fragment + 4, 4):uint()
            if offset + packet.payload_len > total or packet.payload_len == 0 or has.bundle then
                return packet, "fragment does not lie inside its message"
            end
        end
        if has.placement and not all_zero(tvb(packet.at.placement + 4, 4)) then
            return packet, "reserved bytes are not zero"
        end
        if has.bundle then
            if has.match or has.immediate or has.placement then
                return packet, "payload or extension that this kind of packet cannot carry"
            end
            if captured == have and not has.seal then
                packet.records = split_records(tvb, at, packet.message)
                if not packet.records then
                    return packet, "records do not fill the bundle"
                end
            end
        end
    end
    if has.key_phase and not has.seal then
        return packet, "payload or extension that this kind of packet cannot carry"
    end
    if has.checksum then
        if not all_zero(tvb(packet.at.checksum + 4, 4)) then
            return packet, "reserved bytes are not zero"
        end
        packet.checksum_status = 2
        if captured == have and hikyaku.prefs.verify then
            local right = crc32c(tvb, packet.at.checksum) == tvb(packet.at.checksum, 4):uint()
            packet.checksum_status = right and 1 or 0
        end
    end
    return packet, nil
end

-- A token as `wire::Token` prints it: index and secret.
local function token(index, secret)
    return decimal(index:uint()) .. ":" .. secret:uint64():tohex():lower()
end

local function shortened(list)
    local shown = table.concat(list, ",", 1, math.min(#list, SHOWN))
    return #list > SHOWN and shown .. ",.." or shown
end

-- One line, as `hikyaku::wire::pretty` prints it.
local function summary(tvb, packet, problem)
    if problem then
        return string.format("malformed, %d bytes: %s", tvb:reported_len(), problem)
    elseif packet.cut then
        return string.format("header not captured, %d bytes of %d", tvb:len(), tvb:reported_len())
    end
    local words = {}
    local function add(...)
        for _, word in ipairs({ ... }) do
            table.insert(words, word)
        end
    end
    local function number(at, len)
        return decimal(tvb(at, len or 4):uint())
    end
    local has, at = packet.has, packet.at
    local destination = tvb(8, 4):uint()
    add(number(4), ">", destination == ANY_PROCESSOR and "*" or decimal(destination), KINDS[packet.kind])
    add("ch", decimal(packet.channel), "session", token(tvb(12, 4), tvb(16, 8)))
    add("seq", number(24), "ack", number(28), "msg", number(36))
    if tvb(34, 1):uint() ~= 0 then
        add("rail", number(34, 1))
    end
    if has.bundle then
        add("bundle")
    end
    if has.ack_request then
        add("ack-request")
    end
    if has.nack then
        add("nack")
    end
    if has.key_phase then
        add("key-phase")
    end
    if has.match then
        add("match", hex(tvb(at.match, 8)))
    end
    if has.immediate then
        add("imm", hex(tvb(at.immediate, 8)))
    end
    if has.fragment then
        add("frag", number(at.fragment) .. "/" .. number(at.fragment + 4))
    end
    if has.placement then
        add("region", number(at.placement), "at", tostring(tvb(at.placement + 8, 8):uint64()))
    end
    if has.timestamp then
        add("time", number(at.timestamp), "echo", number(at.timestamp + 4))
    end
    if has.credit then
        add("credit", number(at.credit), "window", number(at.credit + 4))
    end
    if has.checksum then
        add("crc", hex(tvb(at.checksum, 4)))
    end
    if has.open then
        local open = at.open
        add("open", hex(tvb(open, 8)), "token", token(tvb(open + 8, 4), tvb(open + 16, 8)))
        add("features", hex(tvb(open + 12, 4)))
        add("credit", number(open + 24), "window", number(open + 28), "delay", number(open + 32))
        add("max", number(open + 36, 2), "port", number(open + 38, 2))
    end
    if has.sack then
        add("sack")
        local runs = sack_runs(tvb, packet)
        if #runs > 0 then
            add(shortened(runs))
        end
    end
    if packet.seal_at then
        local at = packet.seal_at
        add("seal", tostring(tvb(at, 8):uint64()), "tag", tvb(at + 8, 16):bytes():tohex():lower())
    end
    add("len", decimal(packet.payload_len))
    if packet.records then
        local lengths = {}
        for _, record in ipairs(packet.records) do
            table.insert(lengths, decimal(record.len))
        end
        add("records", shortened(lengths))
    end
    if packet.checksum_status == 0 then
        add("bad crc")
    end
    return table.concat(words, " ")
end

local function show_base(tvb, tree)
    tree:add(field.version, tvb(0, 1))
    tree:add(field.kind, tvb(0, 1))
    tree:add(field.channel, tvb(1, 1))
    local flags = tree:add(field.flags, tvb(2, 2))
    for _, flag in ipairs(FLAGS) do
        flags:add(field["flags." .. flag[1]], tvb(2, 2))
    end
    tree:add(field.source, tvb(4, 4))
    local destination = tree:add(field.destination, tvb(8, 4))
    if tvb(8, 4):uint() == ANY_PROCESSOR then
        destination:append_text(" (whoever listens there)")
    end
    tree:add(field["session.index"], tvb(12, 4))
    tree:add(field["session.secret"], tvb(16, 8))
    tree:add(field.sequence, tvb(24, 4))
    tree:add(field.acknowledgement, tvb(28, 4))
    tree:add(field.payload_len, tvb(32, 2))
    tree:add(field.rail, tvb(34, 1))
    tree:add(field.reserved, tvb(35, 1))
    tree:add(field.message, tvb(36, 4))
end

-- What extensions that are a row of fields consist of: name and length; reserved bytes have no name.
local ROWS = {
    fragment = { { "offset", 4 }, { "total", 4 } },
    placement = { { "region", 4 }, { nil, 4 }, { "offset", 8 } },
    timestamp = { { "value", 4 }, { "echo", 4 } },
    credit = { { "limit", 4 }, { "window", 4 } },
    open = {
        { "epoch", 8 },
        { "token.index", 4 },
        { "features", 4 },
        { "token.secret", 8 },
        { "limit", 4 },
        { "window", 4 },
        { "ack_delay", 4 },
        { "max_datagram", 2 },
        { "port", 2 },
    },
}

local function show_extensions(tvb, tree, packet)
    for _, flag in ipairs(FLAGS) do
        local name, at = flag[1], packet.at[flag[1]]
        if at and ROWS[name] then
            local row = tree:add(field[name], tvb(at, flag[4]))
            for _, column in ipairs(ROWS[name]) do
                local range = tvb(at, column[2])
                local item = row:add(column[1] and field[name .. "." .. column[1]] or field.reserved, range)
                if column[1] == "features" then
                    item:add(field["open.features.checksum"], range)
                    item:add(field["open.features.settle"], range)
                    item:add(field["open.features.rails"], range)
                    item:add(field["open.features.sealed"], range)
                    item:add(field["open.features.required"], range)
                end
                at = at + column[2]
            end
        elseif at and name == "checksum" then
            local item = tree:add(field.checksum, tvb(at, 4))
            if packet.checksum_status then
                item:add(field["checksum.status"], tvb(at, 4), packet.checksum_status):set_generated()
            end
            if packet.checksum_status == 0 then
                item:add_proto_expert_info(bad_checksum)
            end
            tree:add(field.reserved, tvb(at + 4, 4))
        elseif at then
            tree:add(field[name], tvb(at, 8))
        end
    end
    local at, words = packet.sack_at, packet.sack_words
    if at then
        local sack = tree:add(field.sack, tvb(at, 8 + 8 * words))
        sack:add(field["sack.words"], tvb(at, 1))
        sack:add(field.reserved, tvb(at + 1, 7))
        for word = 1, words do
            sack:add(field["sack.word"], tvb(at + 8 * word, 8))
        end
        for _, run in ipairs(sack_runs(tvb, packet)) do
            sack:add(field["sack.run"], tvb(at + 8, 8 * words), run):set_generated()
        end
    end
    at = packet.seal_at
    if at then
        local seal = tree:add(field.seal, tvb(at, SEAL_LEN))
        seal:add(field["seal.number"], tvb(at, 8))
        seal:add(field["seal.tag"], tvb(at + 8, 16))
    end
end

local function show_payload(tvb, tree, packet)
    local at = packet.payload_at
    if not at or tvb:len() <= at then
        return
    end
    if not packet.records then
        tree:add(field.payload, tvb(at))
        return
    end
    for i, record in ipairs(packet.records) do
        local len = record.data_at - record.at + record.len
        local item = tree:add(field.record, tvb(record.at, len))
        item:set_text(string.format("Record %d: message %s, %d bytes", i, decimal(record.message), record.len))
        item:add(field["record.message"], tvb(record.at, len), record.message):set_generated()
        item:add(field["record.len"], tvb(record.at, 2))
        item:add(field["record.flags"], tvb(record.at + 2, 2))
        if record.match_at then
            item:add(field["record.match"], tvb(record.match_at, 8))
        end
        if record.len > 0 then
            item:add(field["record.data"], tvb(record.data_at, record.len))
        end
    end
end

local function dissect(tvb, pinfo, root, packet, problem)
    local line = summary(tvb, packet, problem)
    pinfo.cols.protocol = "Hikyaku"
    pinfo.cols.info = line
    local tree = root:add(hikyaku, tvb(0, tvb:len()))
    tree:add(field.summary, tvb(0, tvb:len()), line):set_generated()
    if packet.base then
        show_base(tvb, tree)
        show_extensions(tvb, tree, packet)
        show_payload(tvb, tree, packet)
    elseif packet.version then
        tree:add(field.version, tvb(0, 1))
    end
    if problem then
        tree:add_proto_expert_info(malformed, "Malformed packet: " .. problem)
    elseif packet.cut then
        return
    elseif packet.kind == RESET then
        tree:add_proto_expert_info(RESETS[tvb(36, 4):uint()] or refused)
    elseif packet.kind == RETURN then
        tree:add_proto_expert_info(returned)
    elseif packet.has.nack then
        tree:add_proto_expert_info(nack)
    end
end

function hikyaku.dissector(tvb, pinfo, root)
    local packet, problem = read(tvb)
    dissect(tvb, pinfo, root, packet, problem)
    return tvb:len()
end

local function heuristic(tvb, pinfo, root)
    if tvb:len() < BASE_LEN then
        return false
    end
    local packet, problem = read(tvb)
    if problem or packet.cut then
        return false
    end
    dissect(tvb, pinfo, root, packet, nil)
    return true
end

local table_of_ports = DissectorTable.get("udp.port")
local port = hikyaku.prefs.port

function hikyaku.prefs_changed()
    if port ~= hikyaku.prefs.port then
        if port ~= 0 then
            table_of_ports:remove(port, hikyaku)
        end
        port = hikyaku.prefs.port
        if port ~= 0 then
            table_of_ports:add(port, hikyaku)
        end
    end
end

table_of_ports:add_for_decode_as(hikyaku)
if port ~= 0 then
    table_of_ports:add(port, hikyaku)
end
hikyaku:register_heuristic("udp", heuristic)
